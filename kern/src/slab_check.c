/* Run-time checking of a cache: finds invalid writes to its objects and invalid frees.
 *
 * A cache can be switched to checking, and back, while it is in use. While it is checked, its new
 * objects come from *checked slabs*, in which each object has a slot:
 *
 *   | object, object_size bytes | red zone, 16 bytes or more | audit |
 *
 * The stride from slot to slot keeps the alignment.
 *
 * The audit records the requested size, and where, when and by which task the object was last
 * allocated and last freed. The red zone begins where the requested bytes end. The last word of
 * each audit is red zone, too: it guards the start of the next object. A free object is filled with
 * FREE_PATTERN, a newly allocated one with FRESH_PATTERN. Allocation rotates through the slabs with
 * free objects and through the objects in them, so that a freed object stays free for long and a
 * late write to it is found.
 *
 * Errors found:
 *   on free   double free, free to the wrong cache, free of an address that is no object, red zone
 *             written
 *   on alloc  free object written
 *   by scan   red zone or free object written, in all checked slabs; a scan is made on request
 *   on return of a slab to the arena: free object written, in this slab
 *
 * The log gets a report of each error, with the stacks in the audit and the stack of the code that
 * found the error. The object is quarantined: it stays in its slab, the slab stays with the cache,
 * and the object is not reused. An object that is freed to the wrong cache stays an allocated
 * object of its own cache. A refused free is not counted, so live counts stay exact.
 *
 * A checked cache uses no magazines. They are retired when checking starts. A CPU without magazines
 * takes the slow path, which tests whether the cache is checked (uses_magazines). Objects are
 * constructed when allocated and destructed when freed.
 *
 * A CPU's flag KMC_CHECKED means that an object of a checked slab may come back. A free tests this
 * flag together with KMC_EVER_TRACED. The flag is set before the first such object is allocated.
 * When checking stops, the flag is cleared only if no object of a checked slab is out. So objects
 * of checked slabs never get into magazines of their cache, and each free of such an object is
 * checked. Objects of unchecked slabs return to their slabs, which serve no allocations while the
 * cache is checked. A double free of such an object is found, but the report cannot say where the
 * first free was.
 *
 * States of an object: free -> taken -> allocated -> freeing -> free. The states are kept apart
 * from the objects, in the slab's structure. The changes are made
 * - to "taken", which means not yet constructed: under the lock,
 * - to "allocated": by the CPU that has taken the object,
 * - to "freeing": by compare and exchange, so that one of two concurrent frees is reported,
 * - to "free": under the lock.
 * The states "allocated" and "freeing" have a damaged variant for objects that have been reported
 * already. Damaged objects are quarantined under the lock: a free object when the damage is found,
 * an allocated one when it is freed.
 *
 * The cache's lock guards the lists. A scan holds the lock while it checks one object. All other
 * checks and the writes of patterns happen without the lock. Reports are made with no lock of the
 * allocator held. Reports of several CPUs can mix; each line carries the number of its report.
 */

#include "kasan.h"
#include "slab_check_impl.h"

enum {
  RED_ZONE_MIN = 16,
  GAP_MAX = 64, /* largest gap before a slab's first object, in bytes; see slab_check_init */
  SLAB_MAX = 8 * SLAB_OS_PAGE_SIZE, /* bytes of a slab, unless one object needs more */
  EMPTY_KEPT = 1,                   /* empty slabs that a checked cache keeps */
};

/* ---- Shape. */

void slab_check_init(struct kmem_cache* cache, size_t align) {
  struct kmem_checks* const checks = &cache->checks;
  checks->gap = align <= GAP_MAX ? align : 0;
  checks->stride =
      (cache->object_size + RED_ZONE_MIN + sizeof(struct audit) + align - 1) & ~(align - 1);
  const size_t extra = checks->gap + sizeof(struct checked_slab) + sizeof(uint64_t);
  const size_t each = checks->stride + 1; /* includes the object's state */
  checks->slab_size = (each + extra + SLAB_OS_PAGE_SIZE - 1) & ~(size_t)(SLAB_OS_PAGE_SIZE - 1);
  while (checks->slab_size < SLAB_MAX && (checks->slab_size - extra) % each > checks->slab_size / 8)
    checks->slab_size += SLAB_OS_PAGE_SIZE;
  checks->objects = (uint32_t)((checks->slab_size - extra) / each);
}

/* Offset of the checked_slab structure from the start of the slab's pages. */
static size_t structure_offset(const struct kmem_checks* checks) {
  return checks->slab_size - ((sizeof(struct checked_slab) + checks->objects + 7) & ~(size_t)7);
}

/* The object's index in its slab; for another address, the index of the slot that contains it. */
static uint32_t index_of(const struct kmem_cache* cache, const struct checked_slab* slab,
                         const void* object) {
  return (uint32_t)((size_t)((const char*)object - slab->slab.base) / cache->checks.stride);
}

/* The word of red zone before an object; NULL if there is none. */
static uint64_t* guard_before(const struct kmem_cache* cache, const struct checked_slab* slab,
                              void* object) {
  return object == slab->slab.base && cache->checks.gap == 0 ? NULL : (uint64_t*)object - 1;
}

static void set_state(struct checked_slab* slab, uint32_t i, enum state state) {
  __atomic_store_n(&slab->states[i], (uint8_t)state, __ATOMIC_RELEASE);
}
static bool change_state(struct checked_slab* slab, uint32_t i, enum state from, enum state to) {
  uint8_t expected = (uint8_t)from;
  return __atomic_compare_exchange_n(&slab->states[i], &expected, (uint8_t)to, false,
                                     __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}

/* ---- Inspection of an object that nobody else touches, or whose state the lock protects. */

static enum verdict inspect(const struct kmem_cache* cache, const struct checked_slab* slab,
                            char* object, bool free, struct damage* damage) {
  const struct audit* const audit = audit_of(cache, object);
  if (slab_check_find_damage(&audit->start, &audit->start + 1, RED_PATTERN, damage)) {
    slab_check_find_damage(object + cache->object_size, &audit->start + 1, RED_PATTERN, damage);
    return NO_AUDIT;
  }
  uint64_t* const guard = guard_before(cache, slab, object);
  if (guard && slab_check_find_damage(guard, guard + 1, RED_PATTERN, damage)) return WRITE_BEFORE;
  if (!free)
    return slab_check_find_damage(object + audit->requested, audit, RED_PATTERN, damage)
               ? WRITE_PAST_END
               : SOUND;
  return slab_check_find_damage(object, object + cache->object_size, FREE_PATTERN, damage) ||
                 slab_check_find_damage(object + cache->object_size, audit, RED_PATTERN, damage)
             ? WRITE_AFTER_FREE
             : SOUND;
}

/* ---- Lists. */

static void list_append(struct kmem_cache* cache, struct checked_slab* slab, enum list which)
    REQUIRES(cache->lock) {
  struct checked_slab** const ends = cache->checked.lists[which];
  slab->links[which].next = NULL;
  slab->links[which].prev = ends[1];
  *(ends[1] ? &ends[1]->links[which].next : &ends[0]) = slab;
  ends[1] = slab;
}

static void list_remove(struct kmem_cache* cache, struct checked_slab* slab, enum list which)
    REQUIRES(cache->lock) {
  struct checked_slab** const ends = cache->checked.lists[which];
  struct checked_slab *const next = slab->links[which].next, *const prev = slab->links[which].prev;
  *(prev ? &prev->links[which].next : &ends[0]) = next;
  *(next ? &next->links[which].prev : &ends[1]) = prev;
}

/* Adds `out` to the number of allocated objects and `quarantined` to the number of quarantined
 * objects, in the slab and in the cache. If the slab has lost its last free object, or has got one
 * again, updates the list USABLE. */
static void count(struct kmem_cache* cache, struct checked_slab* slab, int out, int quarantined)
    REQUIRES(cache->lock) {
  struct checked_slabs* const checked = &cache->checked;
  const bool was_usable = is_usable(cache, slab);
  checked->empty -= is_empty(slab);
  slab->slab.out += (uint32_t)out;
  slab->quarantined += (uint32_t)quarantined;
  cache->objects_out += (uint64_t)out;
  checked->out += (uint64_t)out;
  checked->quarantined += (uint64_t)quarantined;
  checked->empty += is_empty(slab);
  if (is_usable(cache, slab) == was_usable) return;
  if (was_usable)
    list_remove(cache, slab, USABLE);
  else
    list_append(cache, slab, USABLE);
}

/* Adds a slab to the lists. All objects of the slab are free. */
static void slab_insert(struct kmem_cache* cache, struct checked_slab* slab) REQUIRES(cache->lock) {
  list_append(cache, slab, ALL);
  list_append(cache, slab, USABLE);
  cache->checked.slabs++;
  cache->checked.empty++;
}

/* Takes a slab off the lists. All objects of the slab are free. */
static void slab_remove(struct kmem_cache* cache, struct checked_slab* slab) REQUIRES(cache->lock) {
  list_remove(cache, slab, ALL);
  list_remove(cache, slab, USABLE);
  cache->checked.slabs--;
  cache->checked.empty--;
}

/* Marks an object as quarantined. `out`: -1 if the object counts as allocated, otherwise 0. */
static void quarantine(struct kmem_cache* cache, struct checked_slab* slab, uint32_t i, int out)
    REQUIRES(cache->lock) {
  count(cache, slab, out, 1);
  set_state(slab, i, QUARANTINED);
}

/* Takes an empty slab off the lists and returns it. NULL if the cache has at most `kept` empty
 * slabs, or if all of them are pinned. */
static struct checked_slab* take_empty(struct kmem_cache* cache, uint64_t kept)
    REQUIRES(cache->lock) {
  if (cache->checked.empty <= kept) return NULL;
  struct checked_slab* slab = cache->checked.lists[USABLE][0];
  while (slab && (!is_empty(slab) || slab->pins > 0)) slab = slab->links[USABLE].next;
  if (slab) slab_remove(cache, slab);
  return slab;
}

/* ---- Making slabs and giving them back. */

static struct checked_slab* slab_make(struct kmem_cache* cache, int flags) EXCLUDES(cache->lock) {
  const struct kmem_checks* const checks = &cache->checks;
  char* const pages = (char*)slab_os_pages_alloc(cache->arena, checks->slab_size, flags);
  if (!pages) return NULL;
  struct checked_slab* const slab = (struct checked_slab*)(pages + structure_offset(checks));
  kasan_forbid(pages, checks->slab_size, KASAN_NO_OBJECT);
  slab_check_fill(pages, slab, RED_PATTERN);
  *slab =
      (struct checked_slab){.slab = {.cache = cache, .base = pages + checks->gap, .checked = true}};
  for (uint32_t i = 0; i < checks->objects; i++) {
    char* const object = object_at(cache, slab, i);
    slab_check_fill(object, object + cache->object_size, FREE_PATTERN);
    *audit_of(cache, object) = (struct audit){.start = RED_WORD, .guard = RED_WORD};
    slab->states[i] = FREE;
  }
  slab_os_pages_set_slab(pages, checks->slab_size, &slab->slab);
  return slab;
}

static void slab_destroy(struct kmem_cache* cache, struct checked_slab* slab)
    EXCLUDES(cache->lock) {
  char* const pages = (char*)slab - structure_offset(&cache->checks);
  kasan_forbid(pages, cache->checks.slab_size, KASAN_FREED_PAGES);
  slab_os_pages_set_slab(pages, cache->checks.slab_size, NULL);
  slab_os_pages_free(cache->arena, pages, cache->checks.slab_size);
}

/* Inspects a free object, which nobody can allocate meanwhile. If it is damaged, reports it and
 * returns true. */
static bool damaged_while_free(struct kmem_cache* cache, struct checked_slab* slab, char* object,
                               const char* found, const void* frame) {
  struct report damaged = {.cache = cache, .object = object, .audit = audit_of(cache, object)};
  damaged.verdict = inspect(cache, slab, object, true, &damaged.damage);
  if (damaged.verdict == SOUND) return false;
  slab_check_report(&damaged, found, frame);
  return true;
}

/* Returns a slab to the arena. The slab is off the lists and all its objects are free. If an
 * object is damaged, puts the slab back on the lists instead. */
static void slab_release(struct kmem_cache* cache, struct checked_slab* slab)
    EXCLUDES(cache->lock) {
  bool sound = true;
  for (uint32_t i = 0; i < cache->checks.objects; i++) {
    if (!damaged_while_free(cache, slab, object_at(cache, slab, i),
                            "found as its slab was given back", __builtin_frame_address(0)))
      continue;
    set_state(slab, i, FREEING_DAMAGED);
    sound = false;
  }
  if (sound) {
    slab_destroy(cache, slab);
    return;
  }
  LOCK_GUARD(&cache->lock);
  slab_insert(cache, slab);
  for (uint32_t i = 0; i < cache->checks.objects; i++)
    if (state_of(slab, i) == FREEING_DAMAGED) quarantine(cache, slab, i, 0);
}

/* ---- Allocation. */

/* Takes a free object from the slab. */
static char* take_from(struct kmem_cache* cache, struct checked_slab* slab) REQUIRES(cache->lock) {
  uint32_t i = slab->next;
  while (state_of(slab, i) != FREE) i = i + 1 < cache->checks.objects ? i + 1 : 0;
  slab->next = i + 1 < cache->checks.objects ? i + 1 : 0;
  set_state(slab, i, TAKEN);
  count(cache, slab, 1, 0);
  return object_at(cache, slab, i);
}

/* If `made` is not NULL, inserts it into the lists. Then takes a free object of the first usable
 * slab; `*object` is NULL if there is none. If the cache is not checked any more, changes nothing
 * and returns false. */
static bool take(struct kmem_cache* cache, struct checked_slab* made, char** object) {
  LOCK_GUARD(&cache->lock);
  *object = NULL;
  if (!cache->checks.on) return false;
  if (made) slab_insert(cache, made);
  struct checked_slab* const slab = cache->checked.lists[USABLE][0];
  if (slab) *object = take_from(cache, slab);
  return true;
}

void* slab_check_take(struct kmem_cache* cache, int flags) {
  for (;;) {
    char* object;
    if (!take(cache, NULL, &object)) return NULL;
    if (!object) {
      struct checked_slab* const made = slab_make(cache, flags);
      if (!take(cache, made, &object)) {
        if (made) slab_destroy(cache, made);
        return NULL;
      }
      if (!object) return NULL;
    }
    struct checked_slab* const slab = slab_of(object);
    if (!damaged_while_free(cache, slab, object, "found as it was to be allocated again",
                            __builtin_frame_address(0))) {
      slab_check_fill(object, object + cache->object_size, FRESH_PATTERN);
      return object;
    }
    LOCK_GUARD(&cache->lock);
    quarantine(cache, slab, index_of(cache, slab, object), -1);
  }
}

void slab_check_allocated(struct kmem_cache* cache, void* object, size_t requested,
                          const void* frame) {
  struct checked_slab* const slab = slab_of(object);
  if (!slab) return;
  struct audit* const audit = audit_of(cache, object);
  audit->requested = requested < cache->object_size ? requested : cache->object_size;
  slab_check_fill((char*)object + audit->requested, (char*)object + cache->object_size,
                  RED_PATTERN);
  slab_os_note_place(&audit->allocated, frame);
  set_state(slab, index_of(cache, slab, object), ALLOCATED);
}

size_t kmem_cache_usable_size(const struct kmem_cache* cache, const void* object) {
  return slab_of(object) ? audit_of(cache, object)->requested : cache->object_size;
}

/* ---- Free. */

/* Prevents the reuse of an object that was freed twice. If the first free is still under way, marks
 * the object as damaged, and the first free quarantines it. Does nothing if the object is allocated
 * again, or if its slab has been given back. */
static void quarantine_if_free(struct kmem_cache* cache, const struct checked_slab* slab,
                               const void* object) {
  LOCK_GUARD(&cache->lock);
  struct checked_slab* listed = cache->checked.lists[ALL][0];
  while (listed && listed != slab) listed = listed->links[ALL].next;
  if (!listed) return;
  const uint32_t i = index_of(cache, listed, object);
  if (state_of(listed, i) == FREE)
    quarantine(cache, listed, i, 0);
  else
    change_state(listed, i, FREEING, FREEING_DAMAGED);
}

enum check_outcome slab_check_free(struct kmem_cache* cache, void* object, const void* frame) {
  struct kmem_slab* const any = slab_os_page_slab(object);
  struct checked_slab* const slab = slab_of(object);
  struct report wrong = {
      .cache = any ? any->cache : cache, .given = cache, .object = (const char*)object};
  const size_t stride = !any ? 0 : slab ? wrong.cache->checks.stride : wrong.cache->stride;
  const size_t offset = any ? (size_t)((char*)object - any->base) : 0;
  const uint32_t objects = !any   ? 0
                           : slab ? wrong.cache->checks.objects
                                  : wrong.cache->objects_per_slab;
  if (!any || offset % stride != 0 || offset / stride >= objects) {
    wrong.verdict = NO_OBJECT;
    if (slab && offset / stride < objects) {
      wrong.around = any->base + offset / stride * stride;
      wrong.audit = audit_of(wrong.cache, wrong.around);
    }
    slab_check_report(&wrong, "freed", frame);
    return CHECK_REFUSED;
  }
  if (slab) wrong.audit = audit_of(wrong.cache, object);
  if (wrong.cache != cache) {
    wrong.verdict = WRONG_CACHE;
    slab_check_report(&wrong, "freed", frame);
    return CHECK_REFUSED;
  }
  if (!slab) {
    if (!slab_check_on(cache) || !slab_layer_is_free(cache, object)) return CHECK_UNCHECKED;
    wrong.verdict = DOUBLE_FREE;
    slab_check_report(&wrong, "freed again", frame);
    return CHECK_REFUSED;
  }
  const uint32_t i = index_of(cache, slab, object);
  const bool known = change_state(slab, i, ALLOCATED_DAMAGED, FREEING_DAMAGED);
  if (!known && !change_state(slab, i, ALLOCATED, FREEING)) {
    wrong.verdict = DOUBLE_FREE;
    slab_check_report(&wrong, "freed again", frame);
    quarantine_if_free(cache, slab, object);
    return CHECK_REFUSED;
  }
  struct audit* const audit = audit_of(cache, object);
  if (!known) {
    wrong.verdict = inspect(cache, slab, (char*)object, false, &wrong.damage);
    if (wrong.verdict != SOUND) {
      set_state(slab, i, FREEING_DAMAGED);
      slab_check_report(&wrong, "found as it was freed", frame);
    }
  }
  slab_os_note_place(&audit->freed, frame);
  return CHECK_PASSED;
}

bool slab_check_owner(struct kmem_cache* cache, void* object) {
  if (kmem_cache_flags(cache) & KMC_NOTOUCH) return true;
  const struct kmem_slab* const slab = slab_os_page_slab(object);
  if (slab && slab->cache == cache) return true;
  if (!slab || !slab->checked)
    slab_os_panic(
        "%s: %p was freed to it, but belongs to %s. "
        "To learn more, write `check` to #mem/kmemtrace/ctl and do it again",
        cache->name, object, slab ? slab->cache->name : "no cache");
  struct report wrong = {
      .verdict = WRONG_CACHE, .cache = slab->cache, .given = cache, .object = (const char*)object};
  wrong.audit = audit_of(
      slab->cache, object_at(slab->cache, (const struct checked_slab*)slab,
                             index_of(slab->cache, (const struct checked_slab*)slab, object)));
  slab_check_report(&wrong, "freed some time before, found as a magazine was emptied",
                    __builtin_frame_address(0));
  return false;
}

bool slab_check_is_checked(const void* object) {
  return slab_of(object);
}

bool slab_check_put(struct kmem_cache* cache, void* object) {
  struct checked_slab* const slab = slab_of(object);
  const uint32_t i = index_of(cache, slab, object);
  struct checked_slab* surplus;
  if (state_of(slab, i) != FREEING_DAMAGED)
    slab_check_fill(object, (char*)object + cache->object_size, FREE_PATTERN);
  {
    LOCK_GUARD(&cache->lock);
    if (state_of(slab, i) == FREEING_DAMAGED) {
      quarantine(cache, slab, i, -1);
    } else {
      set_state(slab, i, FREE);
      count(cache, slab, -1, 0);
    }
    surplus = take_empty(cache, cache->checks.on ? EMPTY_KEPT : 0);
    if (!surplus) return slab_layer_was_last(cache);
    cache->frees_under_way++;
  }
  slab_release(cache, surplus);
  return slab_layer_end_free(cache);
}

static struct checked_slab* take_any_empty(struct kmem_cache* cache) {
  LOCK_GUARD(&cache->lock);
  return take_empty(cache, 0);
}

void slab_check_reap(struct kmem_cache* cache) {
  for (struct checked_slab* slab; (slab = take_any_empty(cache));) slab_release(cache, slab);
}

/* ---- Switching. */

static void set_flag(void* cache) {
  kmem_cache_cpu_flags((struct kmem_cache*)cache, KMC_CHECKED, 0);
}
static void clear_flag(void* cache) {
  kmem_cache_cpu_flags((struct kmem_cache*)cache, 0, KMC_CHECKED);
}

/* Switches checking on or off. Returns the number of checked objects that are out. */
static uint64_t switch_to(struct kmem_cache* cache, bool on) {
  LOCK_GUARD(&cache->lock);
  __atomic_store_n(&cache->checks.on, on, __ATOMIC_RELAXED);
  if (on) __atomic_store_n(&cache->checks.shown, 0, __ATOMIC_RELAXED);
  return cache->checked.out;
}

int kmem_cache_can_be_checked(const struct kmem_cache* cache) {
  return !(kmem_cache_flags(cache) & (KMC_NOTRACE | KMC_NOTOUCH));
}

void slab_check_new_cache(struct kmem_cache* cache, const char* name) {
  if (!kmem_cache_can_be_checked(cache) || !slab_os_check_new_cache(name)) return;
  cache->flags |= KMC_CHECKED;
  for (unsigned i = 0; i < slab_os_cpu_count(); i++) cache->cpu[i].flags |= KMC_CHECKED;
  cache->checks.on = true;
}

void kmem_cache_check_start(struct kmem_cache* cache) {
  kmem_cache_master_flags(cache, KMC_CHECKED, 0);
  slab_os_on_each_cpu(set_flag, cache);
  switch_to(cache, true);
  magazines_retire(cache);
}

void kmem_cache_check_stop(struct kmem_cache* cache) {
  const uint64_t out = switch_to(cache, false);
  slab_check_reap(cache);
  if (out > 0) return;
  slab_os_on_each_cpu(clear_flag, cache);
  kmem_cache_master_flags(cache, 0, KMC_CHECKED);
}

/* ---- Scanning all objects. */

/* Pins and returns the slab after `slab`, and unpins `slab`. */
static struct checked_slab* next_pinned(struct kmem_cache* cache, struct checked_slab* slab) {
  LOCK_GUARD(&cache->lock);
  struct checked_slab* next = cache->checked.lists[ALL][0];
  if (slab) next = slab->links[ALL].next;
  if (next) next->pins++;
  if (slab) slab->pins--;
  return next;
}

static bool scan_object(struct kmem_cache* cache, struct checked_slab* slab, uint32_t i,
                        const void* frame) {
  char* const object = object_at(cache, slab, i);
  struct report damaged = {.cache = cache, .object = object, .audit = audit_of(cache, object)};
  {
    LOCK_GUARD(&cache->lock);
    const enum state state = state_of(slab, i);
    if (state != FREE && state != ALLOCATED) return false;
    damaged.verdict = inspect(cache, slab, object, state == FREE, &damaged.damage);
    if (damaged.verdict == SOUND) return false;
    if (state == FREE)
      quarantine(cache, slab, i, 0);
    else if (!change_state(slab, i, ALLOCATED, ALLOCATED_DAMAGED))
      return false; /* a concurrent free finds the damage itself */
  }
  slab_check_report(&damaged, "found in a scan", frame);
  return true;
}

uint64_t kmem_cache_check_scan(struct kmem_cache* cache) {
  uint64_t damaged = 0;
  for (struct checked_slab* slab = NULL; (slab = next_pinned(cache, slab));)
    for (uint32_t i = 0; i < cache->checks.objects; i++)
      damaged += scan_object(cache, slab, i, __builtin_frame_address(0));
  slab_check_reap(cache);
  return damaged;
}

/* Takes the first slab off the list ALL; NULL if there is none. */
static struct checked_slab* take_any(struct kmem_cache* cache) EXCLUDES(cache->lock) {
  LOCK_GUARD(&cache->lock);
  struct checked_slab* const slab = cache->checked.lists[ALL][0];
  if (slab) list_remove(cache, slab, ALL);
  return slab;
}

void slab_check_finish(struct kmem_cache* cache) {
  for (struct checked_slab* slab; (slab = take_any(cache));) {
    for (uint32_t i = 0; i < cache->checks.objects; i++)
      if (slab->states[i] == FREE)
        damaged_while_free(cache, slab, object_at(cache, slab, i), "found as its cache ended",
                           __builtin_frame_address(0));
    slab_destroy(cache, slab);
  }
}
