/* The depot of a cache, and the sizes of magazines. The depot keeps the magazines that no CPU uses.
 * The theory is in slab.c. */

#include "slab_impl.h"

/* ---- Sizes of magazines. */

/* The size of a magazine in bytes, with its header of two words, is a power of two. Even the
 * largest magazine is a small object (slab_layer.c), so that making a magazine takes at most one
 * page. largest_full bounds the memory that idles in the two magazines of a CPU. */
static const struct magazine_type {
  uint32_t rounds;
  size_t largest_start; /* caches of objects up to this size (bytes) start with this type */
  size_t largest_full;  /* caches of objects up to this size (bytes) may grow to this type */
} types[MAGAZINE_TYPES] = {
    {2, SIZE_MAX, SIZE_MAX},
    {6, 4 * SLAB_OS_PAGE_SIZE, 8 * SLAB_OS_PAGE_SIZE},
    {14, SLAB_OS_PAGE_SIZE, 4 * SLAB_OS_PAGE_SIZE},
    {30, SLAB_OS_PAGE_SIZE / 16, SLAB_OS_PAGE_SIZE},
    {62, 0, SLAB_OS_PAGE_SIZE / 8},
};

/* Magazines grow when CPUs find the depot locked more than CONTENTION_MAX times in an interval.
 * They shrink after CALM_INTERVALS consecutive intervals in which no CPU found it locked. */
enum { CONTENTION_MAX = 8, CALM_INTERVALS = 20 };

size_t magazine_bytes(unsigned type) {
  return sizeof(struct kmem_magazine) + types[type].rounds * sizeof(void*);
}

static uint32_t rounds_of(const struct kmem_cache* cache) {
  return types[__atomic_load_n(&cache->magazine_type, __ATOMIC_RELAXED)].rounds;
}

/* stack: no recursion, because the caches of magazines have no magazines (KMC_NOMAGAZINE). */
struct kmem_magazine* magazine_make(struct kmem_cache* cache) {
  const uint32_t type = __atomic_load_n(&cache->magazine_type, __ATOMIC_RELAXED);
  struct kmem_magazine* const magazine =
      (struct kmem_magazine*)kmem_cache_alloc(kmem_magazine_caches[type], KM_ATOMIC);
  if (!magazine) return NULL;
  magazine->rounds = 0;
  magazine->capacity = types[type].rounds;
  return magazine;
}

void magazine_free(struct kmem_magazine* magazine) {
  unsigned type = 0;
  while (types[type].rounds != magazine->capacity) type++;
  kmem_cache_free(kmem_magazine_caches[type], magazine);
}

static void magazines_free(struct kmem_magazine* magazine) {
  while (magazine) {
    struct kmem_magazine* const next = magazine->next;
    magazine_free(magazine);
    magazine = next;
  }
}

/* ---- The lists. */

static void list_put(struct kmem_cache* cache, enum depot_list which,
                     struct kmem_magazine* magazine) REQUIRES(cache->depot_lock) {
  struct magazine_list* const list = &cache->magazines[which];
  magazine->next = list->first;
  list->first = magazine;
  list->count++;
}

static struct kmem_magazine* list_take(struct kmem_cache* cache, enum depot_list which)
    REQUIRES(cache->depot_lock) {
  struct magazine_list* const list = &cache->magazines[which];
  struct kmem_magazine* const magazine = list->first;
  if (!magazine) return NULL;
  list->first = magazine->next;
  list->count--;
  if (list->min > list->count) list->min = list->count;
  return magazine;
}

/* Takes a magazine of the surplus; NULL if there is none. Decreases `min` too, because `min` counts
 * this magazine and becomes the next surplus. */
static struct kmem_magazine* list_take_surplus(struct kmem_cache* cache, enum depot_list which)
    REQUIRES(cache->depot_lock) {
  struct magazine_list* const list = &cache->magazines[which];
  if (list->surplus == 0 || list->min == 0) return NULL;
  list->surplus--;
  list->min--;
  return list_take(cache, which);
}

static void list_close_interval(struct kmem_cache* cache, enum depot_list which)
    REQUIRES(cache->depot_lock) {
  struct magazine_list* const list = &cache->magazines[which];
  list->surplus = list->min;
  list->min = list->count;
}

/* ---- Operations of CPUs. */

/* Takes the depot's lock until the end of a scope; counts contention. */
static inline struct lock_guard contended_guard_begin(struct kmem_cache* cache)
    ACQUIRE(cache->depot_lock) {
  const struct lock_guard guard = {&cache->depot_lock, slab_os_irq_save()};
  if (!slab_os_lock_try(&cache->depot_lock)) {
    slab_os_lock_acquire(&cache->depot_lock);
    cache->contention++;
  }
  return guard;
}
#define DEPOT_GUARD(cache)                                                          \
  const struct lock_guard guard_ __attribute__((cleanup(lock_guard_end), unused)) = \
      contended_guard_begin(cache)

static uint32_t first_type(const struct kmem_cache* cache) {
  uint32_t type = 0;
  while (type + 1 < MAGAZINE_TYPES && cache->object_size <= types[type + 1].largest_start) type++;
  return type;
}

void depot_init(struct kmem_cache* cache) {
  slab_os_lock_init(&cache->depot_lock, SLAB_OS_RANK_DEPOT);
  slab_os_lock_not_needed(&cache->depot_lock); /* nobody else has the cache yet */
  cache->magazine_type = first_type(cache);
}

struct kmem_magazine* depot_take_full(struct kmem_cache* cache) {
  DEPOT_GUARD(cache);
  struct kmem_magazine* const magazine = list_take(cache, DEPOT_FULL);
  if (magazine) cache->depot_rounds -= magazine->rounds;
  return magazine;
}

struct kmem_magazine* depot_take_empty(struct kmem_cache* cache) {
  DEPOT_GUARD(cache);
  return list_take(cache, DEPOT_EMPTY);
}

void depot_put(struct kmem_cache* cache, struct kmem_magazine* magazine, uint32_t rounds) {
  DEPOT_GUARD(cache);
  magazine->rounds = rounds;
  if (rounds > 0) {
    list_put(cache, DEPOT_FULL, magazine);
    cache->depot_rounds += rounds;
  } else if (magazine->capacity == rounds_of(cache)) {
    list_put(cache, DEPOT_EMPTY, magazine);
  } else {
    magazine->next = cache->misfits;
    cache->misfits = magazine;
  }
}

/* ---- Intervals and reaping. */

static struct kmem_magazine* take_misfits(struct kmem_cache* cache) {
  LOCK_GUARD(&cache->depot_lock);
  struct kmem_magazine* const magazines = cache->misfits;
  cache->misfits = NULL;
  return magazines;
}

/* Switches to magazines of another type. Returns the list of empty magazines of the old type. */
static struct kmem_magazine* resize_magazines(struct kmem_cache* cache, uint32_t type)
    REQUIRES(cache->depot_lock) {
  __atomic_store_n(&cache->magazine_type, type, __ATOMIC_RELAXED);
  cache->resizes++;
  struct kmem_magazine* const magazines = cache->magazines[DEPOT_EMPTY].first;
  cache->magazines[DEPOT_EMPTY] = (struct magazine_list){0};
  return magazines;
}

/* The type that new magazines should have in the next interval. */
static uint32_t wanted_type(struct kmem_cache* cache) REQUIRES(cache->depot_lock) {
  const uint64_t contention = cache->contention - cache->contention_before;
  const uint32_t type = cache->magazine_type;
  cache->contention_before = cache->contention;
  cache->calm_intervals = contention == 0 ? cache->calm_intervals + 1 : 0;
  if (contention > CONTENTION_MAX)
    return type + 1 < MAGAZINE_TYPES && cache->object_size <= types[type + 1].largest_full
               ? type + 1
               : type;
  if (cache->calm_intervals < CALM_INTERVALS) return type;
  cache->calm_intervals = 0;
  return type > first_type(cache) ? type - 1 : type;
}

void depot_update(struct kmem_cache* cache) {
  struct kmem_magazine* misfits = NULL;
  {
    LOCK_GUARD(&cache->depot_lock);
    list_close_interval(cache, DEPOT_FULL);
    list_close_interval(cache, DEPOT_EMPTY);
    const uint32_t type = wanted_type(cache);
    if (type != cache->magazine_type) misfits = resize_magazines(cache, type);
  }
  magazines_free(misfits);
  magazines_free(take_misfits(cache));
}

struct kmem_magazine* depot_reap_full(struct kmem_cache* cache, bool surplus_only) {
  LOCK_GUARD(&cache->depot_lock);
  struct kmem_magazine* const magazine =
      surplus_only ? list_take_surplus(cache, DEPOT_FULL) : list_take(cache, DEPOT_FULL);
  if (!magazine) return NULL;
  cache->depot_rounds -= magazine->rounds;
  cache->reaped++;
  return magazine;
}

static struct kmem_magazine* reap_empty(struct kmem_cache* cache, bool surplus_only) {
  LOCK_GUARD(&cache->depot_lock);
  return surplus_only ? list_take_surplus(cache, DEPOT_EMPTY) : list_take(cache, DEPOT_EMPTY);
}

void depot_reap_empty(struct kmem_cache* cache, bool surplus_only) {
  for (struct kmem_magazine* magazine; (magazine = reap_empty(cache, surplus_only));)
    magazine_free(magazine);
  magazines_free(take_misfits(cache));
}

void depot_stats(struct kmem_cache* cache, struct kmem_cache_stats* stats) {
  stats->magazine_size = rounds_of(cache);
  LOCK_GUARD(&cache->depot_lock);
  const struct magazine_list* const full = &cache->magazines[DEPOT_FULL];
  stats->depot_full = full->count;
  stats->depot_empty = cache->magazines[DEPOT_EMPTY].count;
  stats->magazine_rounds += cache->depot_rounds;
  stats->magazine_resizes = cache->resizes;
  stats->depot_contention = cache->contention;
  stats->depot_surplus = full->surplus < full->min ? full->surplus : full->min;
  stats->depot_reaped = cache->reaped;
}
