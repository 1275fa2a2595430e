/* Caches of objects, after Bonwick, "The Slab Allocator" (USENIX 1994), and Bonwick & Adams,
 * "Magazines and Vmem" (USENIX 2001).
 *
 * A cache hands out objects of one size. It has three layers, from the top:
 *
 * - CPUs. Each CPU has two magazines, which are stacks of free, constructed objects: `loaded`
 *   serves allocations and frees; `previous` is full or empty. Only the CPU itself touches its
 *   magazines, in an interrupts-off region, so there is no lock. When an allocation finds `loaded`
 *   empty, the CPU swaps the two magazines; if `previous` is empty, too, the CPU exchanges it for a
 *   full one of the depot. When a free finds `loaded` full, the CPU swaps the two magazines; if
 *   `previous` is full, too, the CPU exchanges it for an empty one of the depot.
 * - Depot. It has two lists of magazines, full and empty. A CPU takes the depot's lock only to
 *   exchange a whole magazine. Magazines come in several sizes; caches of large objects begin with
 *   small magazines. The depot counts how often a CPU finds the lock taken. After an interval (see
 *   "Reaping") with much contention, new magazines have the next larger size. Magazines of an old
 *   size are freed when they come back to the depot empty. Until then magazines of several sizes
 *   are in use, so each CPU stores the capacity of its `loaded` magazine.
 * - Slabs. A slab is a run of pages from the arena, cut into objects. Small objects (up to
 *   an eighth of a page) lie in one page with the slab structure at its end; free objects are
 *   linked through their first word. For larger objects, the slab structure lies elsewhere and each
 *   object has a bufctl. Most caches are page-backed: the descriptor of an object's page names the
 *   object's slab. Caches with KMC_NOTOUCH are the exception: their objects need not be memory of
 *   the direct map. Such a cache has a hash, which leads from an object that is out of its slab to
 *   the object's bufctl. The bufctl names the slab. A slab is in one of three lists: partial, full,
 *   empty. The cache keeps one empty slab and returns others to the arena. Unused bytes of a slab
 *   serve as colour: the first objects of successive slabs lie at successive multiples of a cache
 *   line, or of the alignment if that is larger. A checked cache also has slabs of another kind
 *   (slab_check.c), and does not use its magazines.
 *
 * Reaping. An interval is the time between two calls of kmem_update, some seconds. The shortest
 * length of a depot list in an interval is the list's surplus: nobody needed these magazines. The
 * other magazines are the working set. An allocation that may sleep and finds no memory reaps in
 * three steps, and tries again after each step. It reaps:
 * 1. the surplus of all depots, as far as it is still unused;
 * 2. all magazines of the depots, and the empty slabs;
 * 3. the CPUs' magazines. The CPUs move them, each as a whole, to the depots in an interprocessor
 *    interrupt. So interrupts are off for a short time only.
 * The caches from which slab structures, bufctls and magazines come are reaped last, because
 * reaping other caches frees objects of these caches. Atomic allocations never reap.
 *
 * The constructor runs when an object leaves the slabs, the destructor when it returns to them. So
 * the objects in the magazines of CPUs and depot are constructed.
 *
 * Invariants, while no operation is under way: allocations - frees = live objects; live objects +
 * objects in magazines of CPUs and depot = objects out of the slabs. Each CPU counts allocations
 * and frees in the top layer, where callers get objects and give them back. So live counts are
 * exact, and objects that idle in magazines are not counted as live.
 *
 * Tracing happens in the top layer, too. On an allocation, a hook makes a record in the
 * interrupts-off region in which the object leaves a magazine. On a free, another hook drops the
 * record in the interrupts-off region in which the object comes back, before anyone else can get
 * the object. The CPU's own copy of the flags decides whether a hook is called. The CPU itself
 * changes its copy in an interprocessor interrupt, so the copy never changes inside an
 * interrupts-off region. An allocation that goes to the slabs leaves its region, enters another one
 * afterwards, and tests the flags there.
 *
 * The allocator itself uses some caches (kmem_slab, kmem_bufctl, kmem_hash, kmem_cache,
 * kmem_magazine.BYTES). Their kmem_cache structures are static and their slabs come from
 * slab_os_metadata_arena(), so that no cache is needed to create these caches. Only kmem_cache
 * among them can be traced. The magazine caches use no magazines.
 *
 * Life: a cache has one reference for being alive and one for each holder, counted under the list
 * lock. A destroyed cache is a zombie: its magazines are taken away, and its live objects go
 * straight to the slabs when freed. When the last object is back and no other free is under way,
 * the reference for being alive is dropped. When no reference is left, the structures of the cache
 * are freed. Freeing them may sleep, so a free of the last object leaves this work to the next call
 * of kmem_cache_create, _destroy, _release or _next, or of kmem_update.
 *
 * Locks: there is one for the list of caches, one for each depot, and one for the slabs of each
 * cache. No two of these locks are held at once. No constructor, destructor, hook or arena is
 * called under one of these locks. There is one exception: under the list lock, a new name is
 * looked up among arenas and classes of references. An allocation or a free keeps interrupts off
 * for a bounded time: 20 to 60 instructions and the hook, or the exchange of a magazine under the
 * depot lock. A holder of a cache's lock moves one object, and splits or merges at most one bucket
 * of the bufctl hash. Only verification and the checks of slab_check.c hold a cache's lock while
 * they walk lists.
 */

#include "slab_impl.h"
#include "slab_walk.h"

_Static_assert((KMC_NOTOUCH | KMC_NOTRACE | KMC_NOMAGAZINE | KMC_QCACHE | KMC_TRACED |
                KMC_EVER_TRACED | KMC_INJECT | KMC_CHECKED | KMC_NOPOINTERS) ==
                   KMC_NOTOUCH + KMC_NOTRACE + KMC_NOMAGAZINE + KMC_QCACHE + KMC_TRACED +
                       KMC_EVER_TRACED + KMC_INJECT + KMC_CHECKED + KMC_NOPOINTERS,
               "flags are distinct bits");

/* ---- The allocator's own caches. */

#define OWN_CACHE_BYTES (sizeof(struct kmem_cache) + SLAB_OS_MAX_CPUS * sizeof(struct kmem_cpu))

enum {
  OWN_SLAB,
  OWN_BUFCTL,
  OWN_HASH,
  OWN_CACHE,
  OWN_MAGAZINE,
  OWN_CACHES = OWN_MAGAZINE + MAGAZINE_TYPES
};
static struct { char bytes[OWN_CACHE_BYTES] __attribute__((aligned(64))); } own_caches[OWN_CACHES];

struct kmem_cache* const kmem_slab_cache = (struct kmem_cache*)&own_caches[OWN_SLAB];
struct kmem_cache* const kmem_bufctl_cache = (struct kmem_cache*)&own_caches[OWN_BUFCTL];
struct kmem_cache* const kmem_hash_cache = (struct kmem_cache*)&own_caches[OWN_HASH];
static struct kmem_cache* const kmem_cache_cache = (struct kmem_cache*)&own_caches[OWN_CACHE];
struct kmem_cache* const kmem_magazine_caches[MAGAZINE_TYPES] = {
    (struct kmem_cache*)&own_caches[OWN_MAGAZINE],
    (struct kmem_cache*)&own_caches[OWN_MAGAZINE + 1],
    (struct kmem_cache*)&own_caches[OWN_MAGAZINE + 2],
    (struct kmem_cache*)&own_caches[OWN_MAGAZINE + 3],
    (struct kmem_cache*)&own_caches[OWN_MAGAZINE + 4]};

/* ---- The list of caches. */

struct slab_os_lock kmem_list_lock;
/* The caches are in order of creation. */
static struct kmem_cache* first_cache GUARDED_BY(kmem_list_lock);
/* Not on the list any more; see destroy_released(). */
static struct kmem_cache* released_caches GUARDED_BY(kmem_list_lock);

static bool names_equal(const char* a, const char* b) {
  while (*a && *a == *b) a++, b++;
  return *a == *b;
}

/* True if the name is in use. */
static bool name_taken(const char* name) REQUIRES(kmem_list_lock) {
  if (names_equal(name, "ctl")) return true; /* #mem/kmemtrace/ctl is the control file */
  for (const struct kmem_cache* cache = first_cache; cache; cache = cache->next)
    if (names_equal(cache->name, name)) return true;
  return slab_os_name_taken(name);
}

/* Copies `name`, truncated to fit, with ".number" appended if number is not 0. */
static void name_make(char* to, const char* name, unsigned number) {
  char suffix[12];
  size_t digits = 0, length = 0;
  for (unsigned n = number; n > 0; n /= 10) suffix[digits++] = (char)('0' + n % 10);
  if (number > 0) suffix[digits++] = '.';
  while (name[length] && length < KMEM_CACHE_NAME_MAX - 1 - digits) {
    to[length] = name[length];
    length++;
  }
  while (digits > 0) to[length++] = suffix[--digits];
  to[length] = '\0';
}

kmem_inject_function kmem_injector;

/* Gives the cache a unique name and appends it to the list. Nobody has used the cache yet. */
static void list_add(struct kmem_cache* cache, const char* name) {
  slab_check_new_cache(cache, name);
  LOCK_GUARD(&kmem_list_lock);
  if (kmem_inject_wanted() && !(cache->flags & KMC_QCACHE)) {
    const unsigned cpus = slab_os_cpu_count();
    for (unsigned i = 0; i < cpus; i++) cache->cpu[i].flags |= KMC_INJECT;
  }
  name_make(cache->name, name, 0);
  for (unsigned number = 2; name_taken(cache->name); number++) name_make(cache->name, name, number);
  struct kmem_cache** end = &first_cache;
  while (*end) end = &(*end)->next;
  *end = cache;
}

/* Drops a reference. After the last one, leaves the cache to destroy_released(). */
static void reference_drop(struct kmem_cache* cache) REQUIRES(kmem_list_lock) {
  if (--cache->references > 0) return;
  struct kmem_cache** place = &first_cache;
  while (*place != cache) place = &(*place)->next;
  *place = cache->next;
  cache->next = released_caches;
  released_caches = cache;
}

void kmem_cache_release_later(struct kmem_cache* cache) {
  LOCK_GUARD(&kmem_list_lock);
  reference_drop(cache);
}

static struct kmem_cache* next_released(void) {
  LOCK_GUARD(&kmem_list_lock);
  struct kmem_cache* const cache = released_caches;
  if (cache) released_caches = cache->next;
  return cache;
}

/* Frees the structures of caches that nobody refers to. May sleep. */
static void destroy_released(void) {
  for (struct kmem_cache* cache; (cache = next_released());) {
    slab_trace_destroy(cache);
    magazines_finish(cache);
    slab_layer_finish(cache);
    kmem_cache_free(kmem_cache_cache, cache);
  }
}

void kmem_cache_hold(struct kmem_cache* cache) {
  LOCK_GUARD(&kmem_list_lock);
  cache->references++;
}

void kmem_cache_release(struct kmem_cache* cache) {
  kmem_cache_release_later(cache);
  destroy_released();
}

/* Takes a reference to the next cache, drops the reference to `cache`, and returns the next cache.
 * Does not call destroy_released(), unlike kmem_cache_next. Any context. */
static struct kmem_cache* next_any_context(struct kmem_cache* cache) {
  LOCK_GUARD(&kmem_list_lock);
  struct kmem_cache* const next = cache ? cache->next : first_cache;
  if (next) next->references++;
  if (cache) reference_drop(cache);
  return next;
}

struct kmem_cache* kmem_cache_next(struct kmem_cache* cache) {
  struct kmem_cache* const next = next_any_context(cache);
  destroy_released();
  return next;
}

struct kmem_cache* kmem_walk_next(struct kmem_cache* cache) {
  slab_os_lock_not_needed(&kmem_list_lock); /* nothing changes while the caller walks */
  return cache ? cache->next : first_cache;
}

struct kmem_cache* kmem_cache_find(const char* name) {
  LOCK_GUARD(&kmem_list_lock);
  for (struct kmem_cache* cache = first_cache; cache; cache = cache->next) {
    if (!names_equal(cache->name, name)) continue;
    cache->references++;
    return cache;
  }
  return NULL;
}

/* ---- Making and destroying. */

/* Fills in a zeroed cache except for its name; false if its size or alignment is invalid. */
static bool cache_init(struct kmem_cache* cache, size_t size, size_t align, size_t slab_size,
                       int flags, struct arena* arena) {
  cache->object_size = size;
  cache->flags =
      (uint32_t)flags & (KMC_NOTOUCH | KMC_NOTRACE | KMC_NOMAGAZINE | KMC_QCACHE | KMC_NOPOINTERS);
  cache->payload = flags & KMC_NOPOINTERS ? (uint32_t)size : 0;
  cache->arena = arena;
  slab_os_lock_not_needed(&kmem_list_lock); /* nobody else has the cache yet */
  cache->references = 1;
  depot_init(cache);
  slab_os_lock_init(&cache->lock, SLAB_OS_RANK_CACHE);
  return slab_layer_init(cache, align, slab_size);
}

static void own_cache_init(struct kmem_cache* cache, const char* name, size_t size, size_t align,
                           int flags) {
  if (!cache_init(cache, size, align, 0, flags, slab_os_metadata_arena()))
    slab_os_panic("kmem_init: %s", name);
  list_add(cache, name);
}

void kmem_init(void) {
  slab_os_lock_init(&kmem_list_lock, SLAB_OS_RANK_LIST);
  own_cache_init(kmem_slab_cache, "kmem_slab", sizeof(struct kmem_slab), 0, KMC_NOTRACE);
  own_cache_init(kmem_bufctl_cache, "kmem_bufctl", sizeof(struct kmem_bufctl), 0, KMC_NOTRACE);
  own_cache_init(kmem_hash_cache, "kmem_hash", sizeof(struct linear_hash), 0, KMC_NOTRACE);
  own_cache_init(kmem_cache_cache, "kmem_cache",
                 sizeof(struct kmem_cache) + slab_os_cpu_count() * sizeof(struct kmem_cpu), 64, 0);
  /* These caches come last, so a reap reaches them last. */
  for (unsigned type = 0; type < MAGAZINE_TYPES; type++) {
    char name[KMEM_CACHE_NAME_MAX];
    name_make(name, "kmem_magazine", (unsigned)magazine_bytes(type));
    own_cache_init(kmem_magazine_caches[type], name, magazine_bytes(type), 0,
                   KMC_NOTRACE | KMC_NOMAGAZINE);
  }
}

static struct kmem_cache* cache_make(const char* name, size_t size, size_t align, size_t slab_size,
                                     int flags, struct arena* arena, kmem_constructor constructor,
                                     kmem_destructor destructor, void* private_data) {
  if (!kmem_is_name(name)) slab_os_panic("\"%s\" is not a valid name for a cache", name);
  destroy_released();
  struct kmem_cache* const cache =
      (struct kmem_cache*)kmem_cache_alloc(kmem_cache_cache, KM_SLEEP | KM_ZERO);
  if (!cache) return NULL;
  if (!cache_init(cache, size, align, slab_size, flags, arena ? arena : slab_os_page_arena()))
    slab_os_panic("%s: objects of %lu bytes aligned to %lu are impossible", name,
                  (unsigned long)size, (unsigned long)align);
  cache->constructor = constructor;
  cache->destructor = destructor;
  cache->private_data = private_data;
  if (flags & KMC_NOTOUCH) {
    cache->hash = (struct linear_hash*)kmem_cache_alloc(kmem_hash_cache, KM_SLEEP);
    if (!cache->hash) {
      kmem_cache_free(kmem_cache_cache, cache);
      return NULL;
    }
    slab_layer_hash_init(cache->hash);
  }
  name_make(cache->name, name, 0);
  slab_trace_entering(cache, name);
  list_add(cache, name);
  slab_trace_entered(cache);
  return cache;
}

struct kmem_cache* kmem_cache_create(const char* name, size_t size, size_t align, int flags,
                                     struct arena* arena, kmem_constructor constructor,
                                     kmem_destructor destructor, void* private_data) {
  return cache_make(name, size, align, 0, flags, arena, constructor, destructor, private_data);
}

struct kmem_cache* kmem_qcache_create(const char* name, size_t size, size_t slab_size,
                                      struct arena* arena) {
  return cache_make(name, size, 1, slab_size, KMC_QCACHE | KMC_NOTRACE | KMC_NOTOUCH, arena, NULL,
                    NULL, NULL);
}

void kmem_cache_destroy(struct kmem_cache* cache) {
  if (__atomic_exchange_n(&cache->zombie, 1, __ATOMIC_ACQ_REL))
    slab_os_panic("%s is destroyed twice", cache->name);
  kmem_cache_hold(cache); /* the cache's last object may come back at any time */
  magazines_retire(cache);
  struct kmem_cache_stats stats;
  kmem_cache_stats(cache, &stats);
  const uint64_t live = stats.live;
  /* The arena of a quantum cache is destroyed next, and wants its memory back, even if somebody
   * still looks at the cache. */
  if ((cache->flags & KMC_QCACHE) && live == 0) slab_layer_reap_all(cache);
  /* Objects that are not live may still be on their way to the slabs, in a concurrent reap. */
  if (!slab_layer_await_last(cache)) {
    kmem_cache_release_later(cache);
  } else if (live > 0) {
    slab_os_log("cache %s destroyed with %lu live objects", cache->name, (unsigned long)live);
    slab_trace_report_live(cache, live);
  }
  kmem_cache_release(cache);
}

/* ---- Looking at a cache. */

const char* kmem_cache_name(const struct kmem_cache* cache) {
  return cache->name;
}
size_t kmem_cache_object_size(const struct kmem_cache* cache) {
  return cache->object_size;
}
void kmem_cache_set_payload(struct kmem_cache* cache, size_t bytes) {
  cache->payload = (uint32_t)bytes;
}

size_t kmem_cache_payload(const struct kmem_cache* cache) {
  return cache->payload;
}

int kmem_cache_flags(const struct kmem_cache* cache) {
  return (int)__atomic_load_n(&cache->flags, __ATOMIC_RELAXED) |
         (SLAB_OS_FLAG_TESTS ? 0 : KMC_NOTRACE);
}
struct arena* kmem_cache_arena(const struct kmem_cache* cache) {
  return cache->arena;
}
int kmem_cache_is_zombie(const struct kmem_cache* cache) {
  return (int)__atomic_load_n(&cache->zombie, __ATOMIC_RELAXED);
}

void kmem_cache_stats(struct kmem_cache* cache, struct kmem_cache_stats* stats) {
  *stats = (struct kmem_cache_stats){.object_size = cache->object_size};
  magazines_stats(cache, stats);
  slab_layer_stats(cache, stats);
  stats->failures = __atomic_load_n(&cache->failures, __ATOMIC_RELAXED);
}

/* ---- For the tracer. */

void kmem_cache_cpu_flags(struct kmem_cache* cache, int set, int clear) {
  struct kmem_cpu* const cpu = &cache->cpu[slab_os_cpu()];
  cpu->flags = (uint8_t)((cpu->flags & ~clear) | set);
}

void kmem_cache_unused_flags(struct kmem_cache* cache, int set) {
  const unsigned cpus = slab_os_cpu_count();
  for (unsigned i = 0; i < cpus; i++) cache->cpu[i].flags |= (uint8_t)set;
}

void kmem_cache_master_flags(struct kmem_cache* cache, int set, int clear) {
  __atomic_fetch_and(&cache->flags, ~(uint32_t)clear, __ATOMIC_RELAXED);
  __atomic_fetch_or(&cache->flags, (uint32_t)set, __ATOMIC_RELAXED);
}

_Static_assert(offsetof(struct kmem_cache, head) == 0, "kmem_cache_trace");
struct trace_table** kmem_cache_trace_slot(struct kmem_cache* cache) {
  return &cache->head.trace;
}

/* ---- Fault injection. */

/* Runs on each CPU with interrupts off. A cache that enters the list after this CPU's walk gets the
 * flag from list_add, which tests kmem_injector under the list lock. */
static void set_inject_flags(void* argument) {
  (void)argument;
  const bool wanted = __atomic_load_n(&kmem_injector, __ATOMIC_ACQUIRE);
  for (struct kmem_cache* cache = next_any_context(NULL); cache; cache = next_any_context(cache))
    if (!(kmem_cache_flags(cache) & KMC_QCACHE))
      kmem_cache_cpu_flags(cache, wanted ? KMC_INJECT : 0, wanted ? 0 : KMC_INJECT);
}

int kmem_inject_begin(kmem_inject_function function) {
  kmem_inject_function none = NULL;
  if (!__atomic_compare_exchange_n(&kmem_injector, &none, function, false, __ATOMIC_ACQ_REL,
                                   __ATOMIC_RELAXED))
    return 0;
  slab_os_on_each_cpu(set_inject_flags, NULL);
  return 1;
}

void kmem_inject_end(void) {
  __atomic_store_n(&kmem_injector, NULL, __ATOMIC_RELEASE);
  slab_os_on_each_cpu(set_inject_flags, NULL);
}

ALLOCATOR_TEXT int kmem_inject(enum kmem_inject_site site, const void* source, size_t size,
                               int flags) {
  if (!kmem_inject_wanted()) return 0;
  const uint64_t saved = slab_os_irq_save();
  const kmem_inject_function function = __atomic_load_n(&kmem_injector, __ATOMIC_ACQUIRE);
  const int fails = function && function(site, source, size, flags);
  slab_os_irq_restore(saved);
  return fails;
}

void kmem_drain_cpu(void) {
  for (struct kmem_cache* cache = next_any_context(NULL); cache; cache = next_any_context(cache))
    magazines_drain_cpu(cache);
}

/* ---- Reaping and intervals. */

/* Caches are reaped in this order, because reaping a cache frees objects of caches that come later
 * in this order. */
enum reap_pass { REAP_ORDINARY, REAP_QUANTUM, REAP_OWN, REAP_PASSES };

static enum reap_pass reap_pass_of(const struct kmem_cache* cache) {
  if (kmem_cache_flags(cache) & KMC_QCACHE) return REAP_QUANTUM;
  /* The caches from which the allocator allocates slab structures, bufctls and magazines. */
  return cache->small && cache->arena == slab_os_metadata_arena() ? REAP_OWN : REAP_ORDINARY;
}

static void unload_batch(struct cache_batch* batch) {
  magazines_unload(batch);
  while (batch->count > 0) kmem_cache_release_later(batch->caches[--batch->count]);
}

/* Moves the CPUs' magazines of all caches whose reap_pass_of() is `pass` to the depots. */
static void unload_pass(enum reap_pass pass) {
  struct cache_batch batch = {.count = 0};
  for (struct kmem_cache* cache = next_any_context(NULL); cache; cache = next_any_context(cache)) {
    if (reap_pass_of(cache) != pass || !magazines_loaded(cache)) continue;
    kmem_cache_hold(cache);
    batch.caches[batch.count++] = cache;
    if (batch.count == sizeof(batch.caches) / sizeof(batch.caches[0])) unload_batch(&batch);
  }
  if (batch.count > 0) unload_batch(&batch);
}

static void (*registered_reaper)(enum kmem_reap_extent extent);

void kmem_set_reaper(void (*reap)(enum kmem_reap_extent extent)) {
  registered_reaper = reap;
}

/* Does not call destroy_released(): an allocation may get here, and its caller may hold any
 * sleeping lock.
 * stack: no recursion, because a reap allocates only with KM_ATOMIC, and such an allocation does
 * not reap. */
void kmem_reap_some(enum kmem_reap_extent extent) {
  if (registered_reaper) registered_reaper(extent);
  for (int pass = REAP_ORDINARY; pass < REAP_PASSES; pass++) {
    if (extent == KMEM_REAP_ALL) unload_pass((enum reap_pass)pass);
    for (struct kmem_cache* cache = next_any_context(NULL); cache;
         cache = next_any_context(cache)) {
      if (reap_pass_of(cache) != (enum reap_pass)pass) continue;
      magazines_reap(cache, extent == KMEM_REAP_SURPLUS);
      if (extent != KMEM_REAP_SURPLUS) slab_layer_reap(cache);
    }
  }
}

void kmem_reap(void) {
  kmem_reap_some(KMEM_REAP_ALL);
}

void kmem_update(void) {
  for (struct kmem_cache* cache = kmem_cache_next(NULL); cache; cache = kmem_cache_next(cache))
    depot_update(cache);
}
