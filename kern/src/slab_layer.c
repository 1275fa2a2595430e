/* The lower half of a cache: slabs, bufctls and their hash. The theory is in slab.c. */

#include "kasan.h"
#include "slab_impl.h"

enum {
  SMALL_MAX = SLAB_OS_PAGE_SIZE / 8,      /* larger objects get bufctls */
  LARGE_SLAB_OBJECTS = 4,                 /* objects that a slab of large objects should have */
  LARGE_SLAB_MAX = 8 * SLAB_OS_PAGE_SIZE, /* bytes of a slab, unless one object needs more */
  COLOUR_STEP = 64,                       /* a cache line; a larger alignment replaces it */
  REDZONE_ALIGN_MAX = 64, /* objects of larger alignment have no red zone between them */
  EMPTY_SLABS_KEPT = 1,   /* so that repeated alloc and free of one object needs no new slab */
};

/* True if the descriptor of an object's page names the object's slab. */
static bool page_backed(const struct kmem_cache* cache) {
  return !(__atomic_load_n(&cache->flags, __ATOMIC_RELAXED) & KMC_NOTOUCH);
}

/* ---- Shape of slabs. */

/* `used`: bytes of objects and slab structure; the rest of the slab is room for colours. Quantum
 * caches have no colours: their objects are whole quanta of an arena, which cannot be shifted by a
 * cache line. */
static void set_colours(struct kmem_cache* cache, size_t align, size_t used) {
  const size_t step = align > COLOUR_STEP ? align : COLOUR_STEP;
  const size_t spare = cache->slab_size - used;
  if ((cache->flags & KMC_QCACHE) || step > spare || step > UINT16_MAX) return;
  cache->colour_step = (uint16_t)step;
  cache->colour_max = (uint16_t)((spare < UINT16_MAX ? spare : UINT16_MAX) / step * step);
}

bool slab_layer_init(struct kmem_cache* cache, size_t align, size_t slab_size) {
  const bool touch = page_backed(cache);
  if (cache->object_size == 0 || (align & (align - 1)) != 0) return false;
  if (align == 0) align = touch ? sizeof(void*) : 1;
  if (touch && align < sizeof(void*)) align = sizeof(void*);
  if (align > (touch ? SLAB_OS_PAGE_SIZE : slab_os_pages_align(cache->arena))) return false;
  /* A trace record has 31 bits for a size. Quantum caches are not traced. */
  if (cache->object_size > (cache->flags & KMC_QCACHE ? SIZE_MAX / 4 : INT32_MAX)) return false;
  const size_t redzone = touch && align <= REDZONE_ALIGN_MAX ? KASAN_REDZONE_BYTES : 0;
  cache->stride = (cache->object_size + redzone + align - 1) & ~(align - 1);
  if (touch) slab_check_init(cache, align);
  cache->small = touch && cache->stride <= SMALL_MAX;
  if (cache->small) {
    cache->slab_size = SLAB_OS_PAGE_SIZE;
    cache->objects_per_slab =
        (uint32_t)((SLAB_OS_PAGE_SIZE - sizeof(struct kmem_slab)) / cache->stride);
    set_colours(cache, align, cache->objects_per_slab * cache->stride + sizeof(struct kmem_slab));
    return true;
  }
  if (slab_size == 0) {
    /* Chooses the smallest power of two, in bytes, that has room for LARGE_SLAB_OBJECTS objects and
     * wastes at most an eighth. A slab of LARGE_SLAB_MAX bytes or more only needs room for one
     * object. */
    slab_size = SLAB_OS_PAGE_SIZE;
    while (slab_size < cache->stride ||
           (slab_size < LARGE_SLAB_MAX && (slab_size / cache->stride < LARGE_SLAB_OBJECTS ||
                                           slab_size % cache->stride > slab_size / 8)))
      slab_size *= 2;
  }
  cache->slab_size = slab_size;
  cache->objects_per_slab = (uint32_t)(slab_size / cache->stride);
  set_colours(cache, align, cache->objects_per_slab * cache->stride);
  return cache->objects_per_slab > 0;
}

/* ---- Lists of slabs. */

static void list_insert(struct kmem_cache* cache, struct kmem_slab* slab, enum slab_list list)
    REQUIRES(cache->lock) {
  struct kmem_slab** const head = &cache->slabs[list];
  slab->list = (uint8_t)list;
  slab->prev = NULL;
  slab->next = *head;
  if (*head) (*head)->prev = slab;
  *head = slab;
  cache->slab_count[list]++;
}

static void list_remove(struct kmem_cache* cache, struct kmem_slab* slab) REQUIRES(cache->lock) {
  if (slab->prev)
    slab->prev->next = slab->next;
  else
    cache->slabs[slab->list] = slab->next;
  if (slab->next) slab->next->prev = slab->prev;
  cache->slab_count[slab->list]--;
}

static void list_update(struct kmem_cache* cache, struct kmem_slab* slab) REQUIRES(cache->lock) {
  const enum slab_list list = slab->out == 0                         ? SLABS_EMPTY
                              : slab->out == cache->objects_per_slab ? SLABS_FULL
                                                                     : SLABS_PARTIAL;
  if (list == slab->list) return;
  list_remove(cache, slab);
  list_insert(cache, slab, list);
}

/* ---- Hash of the bufctls whose objects are out of their slabs. A cache has a hash if it is not
 * page-backed (KMC_NOTOUCH). The hash leads from an object to its bufctl, which names the slab. */

void slab_layer_hash_init(struct linear_hash* hash) {
  linear_hash_init(hash, offsetof(struct kmem_bufctl, next), offsetof(struct kmem_bufctl, object));
}

/* The hash, for functions that change it. */
static struct linear_hash* locked_hash(struct kmem_cache* cache) REQUIRES(cache->lock) {
  return cache->hash;
}

static bool hash_give(struct kmem_cache* cache, void* memory, size_t bytes) EXCLUDES(cache->lock) {
  LOCK_GUARD(&cache->lock);
  return linear_hash_give(locked_hash(cache), memory, bytes);
}

static void* hash_take(struct kmem_cache* cache, size_t* bytes) EXCLUDES(cache->lock) {
  LOCK_GUARD(&cache->lock);
  return linear_hash_take(locked_hash(cache), bytes);
}

/* True if hash_fit would do something. */
static bool hash_misfits(const struct kmem_cache* cache) REQUIRES(cache->lock) {
  return cache->hash && (linear_hash_wanted(cache->hash) > 0 || linear_hash_spare(cache->hash));
}

/* Gives the hash the memory that it asks for, or takes away memory that it does not need. */
static void hash_fit(struct kmem_cache* cache) EXCLUDES(cache->lock) {
  struct arena* const arena = slab_os_metadata_arena();
  size_t bytes = linear_hash_wanted(cache->hash);
  if (bytes > 0) {
    void* const memory = slab_os_pages_alloc(arena, bytes, KM_ATOMIC);
    if (memory && !hash_give(cache, memory, bytes)) slab_os_pages_free(arena, memory, bytes);
  } else if (linear_hash_spare(cache->hash)) {
    void* const memory = hash_take(cache, &bytes);
    if (memory) slab_os_pages_free(arena, memory, bytes);
  }
}

/* ---- Making and freeing slabs. */

static void bufctls_free(struct kmem_bufctl* bufctl) {
  while (bufctl) {
    struct kmem_bufctl* const next = bufctl->next;
    kmem_cache_free(kmem_bufctl_cache, bufctl);
    bufctl = next;
  }
}

/* Makes the slab structure at the end of the page, with all objects on its free list, lowest
 * address first. */
static struct kmem_slab* small_slab_make(struct kmem_cache* cache, char* pages, uint16_t colour) {
  struct kmem_slab* const slab =
      (struct kmem_slab*)(pages + SLAB_OS_PAGE_SIZE - sizeof(struct kmem_slab));
  *slab = (struct kmem_slab){.cache = cache, .base = pages + colour, .colour = colour};
  for (uint32_t i = cache->objects_per_slab; i-- > 0;) {
    void* const object = slab->base + i * cache->stride;
    *(void**)object = slab->free_objects;
    slab->free_objects = object;
  }
  return slab;
}

static struct kmem_slab* large_slab_make(struct kmem_cache* cache, char* pages, uint16_t colour,
                                         int flags) {
  struct kmem_slab* const slab = (struct kmem_slab*)kmem_cache_alloc(kmem_slab_cache, flags);
  if (!slab) return NULL;
  *slab = (struct kmem_slab){.cache = cache, .base = pages + colour, .colour = colour};
  for (uint32_t i = cache->objects_per_slab; i-- > 0;) {
    struct kmem_bufctl* const bufctl =
        (struct kmem_bufctl*)kmem_cache_alloc(kmem_bufctl_cache, flags);
    if (!bufctl) {
      bufctls_free(slab->free_bufctls);
      kmem_cache_free(kmem_slab_cache, slab);
      return NULL;
    }
    *bufctl = (struct kmem_bufctl){
        .next = slab->free_bufctls, .object = slab->base + i * cache->stride, .slab = slab};
    slab->free_bufctls = bufctl;
  }
  return slab;
}

/* Successive slabs have successive colours, so that objects at the same index in their slabs do not
 * compete for the same sets of the CPU's caches. */
static uint16_t take_colour(struct kmem_cache* cache) EXCLUDES(cache->lock) {
  LOCK_GUARD(&cache->lock);
  const uint16_t colour = cache->next_colour;
  cache->next_colour = colour < cache->colour_max ? (uint16_t)(colour + cache->colour_step) : 0;
  return colour;
}

static struct kmem_slab* slab_make(struct kmem_cache* cache, int flags) EXCLUDES(cache->lock) {
  char* const pages = (char*)slab_os_pages_alloc(cache->arena, cache->slab_size, flags);
  if (!pages) return NULL;
  /* A trace record has 48 bits for the address of an object. */
  if (!page_backed(cache) && !(kmem_cache_flags(cache) & KMC_NOTRACE) &&
      (uint64_t)((int64_t)((uint64_t)pages << 16) >> 16) != (uint64_t)pages)
    slab_os_panic("%s: it can be traced, but the address %p has more than 48 bits", cache->name,
                  (void*)pages);
  /* If the cache is not page-backed, its objects may be memory that callers access. For a quantum
   * cache, the arena allows the accesses when it allocates an object. */
  if (page_backed(cache))
    kasan_forbid(pages, cache->slab_size, KASAN_NO_OBJECT);
  else if (!(kmem_cache_flags(cache) & KMC_QCACHE))
    kasan_allow(pages, cache->slab_size);
  const uint16_t colour = take_colour(cache);
  struct kmem_slab* const slab = cache->small ? small_slab_make(cache, pages, colour)
                                              : large_slab_make(cache, pages, colour, flags);
  if (!slab) {
    slab_os_pages_free(cache->arena, pages, cache->slab_size);
    return NULL;
  }
  if (page_backed(cache)) slab_os_pages_set_slab(pages, cache->slab_size, slab);
  return slab;
}

static void slab_destroy(struct kmem_cache* cache, struct kmem_slab* slab) EXCLUDES(cache->lock) {
  char* const pages = slab->base - slab->colour;
  if (page_backed(cache)) {
    kasan_forbid(pages, cache->slab_size, KASAN_FREED_PAGES);
    slab_os_pages_set_slab(pages, cache->slab_size, NULL);
  }
  if (!cache->small) {
    bufctls_free(slab->free_bufctls);
    kmem_cache_free(kmem_slab_cache, slab);
  }
  slab_os_pages_free(cache->arena, pages, cache->slab_size);
}

/* ---- Objects. */

/* Takes an object from a slab that has a free one. */
static void* slab_take(struct kmem_cache* cache, struct kmem_slab* slab) REQUIRES(cache->lock) {
  void* object;
  if (cache->small) {
    object = slab->free_objects;
    slab->free_objects = *(void**)object;
    *(void**)object = NULL; /* #mem/unreachable would take a stale link for a pointer */
  } else {
    struct kmem_bufctl* const bufctl = slab->free_bufctls;
    slab->free_bufctls = bufctl->next;
    object = bufctl->object;
    if (page_backed(cache)) {
      bufctl->next = slab->idle_bufctls;
      slab->idle_bufctls = bufctl;
    } else {
      linear_hash_insert(locked_hash(cache), bufctl);
    }
  }
  slab->out++;
  cache->objects_out++;
  list_update(cache, slab);
  return object;
}

/* Takes an object from a slab in the lists; NULL if none is free. */
static void* take_listed(struct kmem_cache* cache) EXCLUDES(cache->lock) {
  LOCK_GUARD(&cache->lock);
  struct kmem_slab* const slab =
      cache->slabs[SLABS_PARTIAL] ? cache->slabs[SLABS_PARTIAL] : cache->slabs[SLABS_EMPTY];
  return slab ? slab_take(cache, slab) : NULL;
}

/* stack: recursion up to 2 deep, because a slab's pages may come from a quantum cache, and its
 * slabs need structures from caches of small objects, which need nothing more. */
void* slab_layer_alloc(struct kmem_cache* cache, int flags) {
  if (UNLIKELY(slab_check_on(cache))) {
    void* const checked = slab_check_take(cache, flags);
    if (checked || slab_check_on(cache)) return checked;
  }
  void* object = take_listed(cache);
  if (!object) {
    struct kmem_slab* const slab = slab_make(cache, flags);
    if (!slab) return take_listed(cache); /* an object may have been freed meanwhile */
    LOCK_GUARD(&cache->lock);
    list_insert(cache, slab, SLABS_EMPTY);
    object = slab_take(cache, slab);
  }
  if (cache->hash) hash_fit(cache);
  return object;
}

/* The slab of an object that is being freed. If the cache is not page-backed, takes the object's
 * bufctl out of the hash. */
static struct kmem_slab* slab_of(struct kmem_cache* cache, void* object,
                                 struct kmem_bufctl** bufctl) REQUIRES(cache->lock) {
  if (page_backed(cache)) return slab_os_page_slab(object);
  *bufctl = (struct kmem_bufctl*)linear_hash_remove(locked_hash(cache), (uintptr_t)object);
  if (*bufctl) return (*bufctl)->slab;
  slab_os_panic(
      "%s: %p is freed, but is not allocated: a double free, or a free to the wrong cache",
      cache->name, object);
}

static void slab_put(struct kmem_cache* cache, void* object) REQUIRES(cache->lock) {
  struct kmem_bufctl* bufctl = NULL;
  struct kmem_slab* const slab = slab_of(cache, object, &bufctl);
  const size_t offset = (size_t)((char*)object - slab->base);
  if (offset % cache->stride != 0 || offset / cache->stride >= cache->objects_per_slab ||
      slab->out == 0)
    slab_os_panic(
        "%s: %p is freed, but is not an allocated object. "
        "To learn more, write `check` to #mem/kmemtrace/%s and do it again",
        cache->name, object, cache->name);
  if (cache->small) {
    *(void**)object = slab->free_objects;
    slab->free_objects = object;
  } else {
    if (!bufctl) {
      bufctl = slab->idle_bufctls;
      slab->idle_bufctls = bufctl->next;
      bufctl->object = object;
    }
    bufctl->next = slab->free_bufctls;
    slab->free_bufctls = bufctl;
  }
  slab->out--;
  cache->objects_out--;
  list_update(cache, slab);
}

bool slab_layer_is_free(struct kmem_cache* cache, const void* object) {
  LOCK_GUARD(&cache->lock);
  const struct kmem_slab* const slab = slab_os_page_slab(object);
  /* Either the slab has been given back, or all its objects are free. In the second case another
   * CPU may be giving the slab back right now, without the lock. So the slab's free list is not
   * read. */
  if (!slab || slab->cache != cache || slab->out == 0) return true;
  if (cache->small) {
    for (const void* free = slab->free_objects; free; free = *(void* const*)free)
      if (free == object) return true;
  } else {
    for (const struct kmem_bufctl* bufctl = slab->free_bufctls; bufctl; bufctl = bufctl->next)
      if (bufctl->object == object) return true;
  }
  return false;
}

/* stack: recursion up to 2 deep, because slab_layer_alloc() has that much. */
bool slab_layer_free(struct kmem_cache* cache, void* object) {
  if (page_backed(cache) && slab_check_is_checked(object)) return slab_check_put(cache, object);
  struct kmem_slab* surplus = NULL;
  {
    LOCK_GUARD(&cache->lock);
    slab_put(cache, object);
    if (cache->slab_count[SLABS_EMPTY] > EMPTY_SLABS_KEPT) {
      surplus = cache->slabs[SLABS_EMPTY];
      list_remove(cache, surplus);
    }
    if (!surplus && !hash_misfits(cache)) return slab_layer_was_last(cache);
    cache->frees_under_way++;
  }
  if (surplus) slab_destroy(cache, surplus);
  if (cache->hash) hash_fit(cache);
  return slab_layer_end_free(cache);
}

bool slab_layer_end_free(struct kmem_cache* cache) {
  LOCK_GUARD(&cache->lock);
  cache->frees_under_way--;
  return slab_layer_was_last(cache);
}

static struct kmem_slab* take_empty(struct kmem_cache* cache) {
  LOCK_GUARD(&cache->lock);
  struct kmem_slab* const slab = cache->slabs[SLABS_EMPTY];
  if (slab) {
    list_remove(cache, slab);
    cache->slabs_under_way++;
  }
  return slab;
}

static void given_back(struct kmem_cache* cache) {
  LOCK_GUARD(&cache->lock);
  cache->slabs_under_way--;
}

void slab_layer_reap(struct kmem_cache* cache) {
  for (struct kmem_slab* slab; (slab = take_empty(cache));) {
    slab_destroy(cache, slab);
    given_back(cache);
  }
  slab_check_reap(cache);
}

static bool has_slabs(struct kmem_cache* cache) {
  LOCK_GUARD(&cache->lock);
  uint64_t slabs = cache->slabs_under_way;
  for (int list = 0; list < SLAB_LISTS; list++) slabs += cache->slab_count[list];
  return slabs != 0;
}

void slab_layer_reap_all(struct kmem_cache* cache) {
  do {
    slab_layer_reap(cache);
  } while (has_slabs(cache));
}

struct kmem_cache* kmem_cache_of(const void* object) {
  const struct kmem_slab* const slab = slab_os_page_slab(object);
  return slab ? slab->cache : NULL;
}

#if SLAB_OS_CHECK_CALLS
const char* kmem_qcache_note(struct kmem_cache* cache, const void* object, int out) {
  LOCK_GUARD(&cache->lock);
  struct kmem_bufctl* const bufctl =
      (struct kmem_bufctl*)linear_hash_remove(locked_hash(cache), (uintptr_t)object);
  if (!bufctl) return "it has another size, or is not allocated";
  linear_hash_insert(locked_hash(cache), bufctl);
  const bool wrong = bufctl->noted == (out != 0);
  bufctl->noted = out;
  return wrong ? out ? "it is allocated already" : "it is not allocated" : NULL;
}
#endif

/* ---- The end of a cache; statistics and verification. */

bool slab_layer_await_last(struct kmem_cache* cache) {
  LOCK_GUARD(&cache->lock);
  cache->awaits_last = cache->objects_out != 0 || cache->frees_under_way != 0;
  return cache->awaits_last;
}

void slab_layer_finish(struct kmem_cache* cache) {
  slab_layer_reap(cache);
  slab_check_finish(cache);
  if (!cache->hash) return;
  size_t bytes;
  for (void* memory; (memory = hash_take(cache, &bytes));)
    slab_os_pages_free(slab_os_metadata_arena(), memory, bytes);
  kmem_cache_free(kmem_hash_cache, cache->hash);
}

void slab_layer_stats(struct kmem_cache* cache, struct kmem_cache_stats* stats) {
  LOCK_GUARD(&cache->lock);
  for (int list = 0; list < SLAB_LISTS; list++) stats->slabs += cache->slab_count[list];
  stats->total_bytes = stats->slabs * cache->slab_size;
  stats->objects_in_slabs = stats->slabs * cache->objects_per_slab;
  stats->objects_out = cache->objects_out;
  slab_check_stats(cache, stats);
  if (cache->hash) {
    stats->hash_buckets = cache->hash->buckets;
    stats->hash_items = cache->hash->items;
    stats->hash_bytes = linear_hash_bytes(cache->hash);
  }
}

static const char* verify_slab(struct kmem_cache* cache, struct kmem_slab* slab) {
  uint64_t free = 0, idle = 0;
  if (slab->cache != cache) return "a slab names another cache";
  if (page_backed(cache) && slab_os_page_slab(slab->base) != slab)
    return "a page names another slab";
  if (slab->colour > cache->colour_max) return "a slab has an invalid colour";
  if (cache->small) {
    for (char* object = (char*)slab->free_objects; object; object = *(char**)object) {
      const size_t offset = (size_t)(object - slab->base);
      if (offset % cache->stride || offset / cache->stride >= cache->objects_per_slab)
        return "a free object lies outside";
      if (++free > cache->objects_per_slab) return "the free list has a cycle";
    }
  } else {
    for (struct kmem_bufctl* bufctl = slab->free_bufctls; bufctl; bufctl = bufctl->next) {
      const size_t offset = (size_t)((char*)bufctl->object - slab->base);
      if (offset % cache->stride || offset / cache->stride >= cache->objects_per_slab)
        return "a free object lies outside";
      if (++free > cache->objects_per_slab) return "the list of bufctls has a cycle";
    }
    for (struct kmem_bufctl* bufctl = slab->idle_bufctls; bufctl; bufctl = bufctl->next) idle++;
    if (idle != (page_backed(cache) ? slab->out : 0)) return "idle bufctls and objects out differ";
  }
  return free + slab->out == cache->objects_per_slab
             ? NULL
             : "the numbers of free and allocated objects do not add up";
}

const char* kmem_cache_verify(struct kmem_cache* cache) {
  LOCK_GUARD(&cache->lock);
  uint64_t out;
  const char* const check_wrong = slab_check_verify(cache, &out);
  if (check_wrong) return check_wrong;
  for (int list = 0; list < SLAB_LISTS; list++) {
    uint64_t slabs = 0;
    for (struct kmem_slab* slab = cache->slabs[list]; slab; slab = slab->next, slabs++) {
      const char* const wrong = verify_slab(cache, slab);
      if (wrong) return wrong;
      if (slab->list != list) return "a slab is in a list that it does not name";
      if ((slab->out == 0) != (list == SLABS_EMPTY) ||
          (slab->out == cache->objects_per_slab) != (list == SLABS_FULL))
        return "a slab is in the wrong list";
      out += slab->out;
    }
    if (slabs != cache->slab_count[list]) return "slabs are miscounted";
  }
  if (out != cache->objects_out) return "objects out are miscounted";
  if (cache->hash && (!linear_hash_sound(cache->hash) || cache->hash->items != out))
    return "the hash is wrong";
  return NULL;
}
