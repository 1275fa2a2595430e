/* Internals shared by slab.c (caches), slab_magazine.c (per-CPU magazines), slab_depot.c (depot),
 * slab_layer.c (slabs), slab_check.c (checked slabs), slab_walk.c and slab_locate.c (read-only
 * access). arena_traced.cc uses the magazines of quantum caches. For C and C++. The theory is in
 * slab.c. */
#pragma once

#include "linear_hash.h"
#include "slab.h"
#include "slab_trace.h"

#ifdef __cplusplus
#define _Static_assert static_assert
extern "C" {
#endif

#define UNLIKELY(x) __builtin_expect(!!(x), 0)

/* One test of these per-CPU flags decides whether an allocation or a free leaves the fast path. */
enum {
  KMC_ALLOC_HOOKS = SLAB_OS_FLAG_TESTS ? KMC_TRACED | KMC_INJECT : 0,
  KMC_FREE_HOOKS = SLAB_OS_FLAG_TESTS ? KMC_EVER_TRACED | KMC_CHECKED : 0
};

enum { MAGAZINE_TYPES = 5 }; /* each type is one size of magazine */

/* A stack of free, constructed objects. */
struct kmem_magazine {
  struct kmem_magazine* next; /* next magazine in a list of the depot */
  uint32_t rounds;            /* objects in the magazine; valid only while the depot has it */
  uint32_t capacity;          /* objects that fit; never changes */
  void* objects[];
};

enum depot_list { DEPOT_FULL, DEPOT_EMPTY, DEPOT_LISTS };

/* A list of magazines in the depot. */
struct magazine_list {
  struct kmem_magazine* first;
  uint64_t count;   /* magazines in the list */
  uint64_t min;     /* lowest count since depot_update: this many magazines were not needed */
  uint64_t surplus; /* `min` of the previous interval, minus the magazines reaped since then */
};

/* A CPU's part of a cache. Only this CPU changes it, with interrupts off. Other CPUs read the
 * counts for statistics. */
struct kmem_cpu {
  uint8_t flags;     /* this CPU's KMC_TRACED, KMC_EVER_TRACED, KMC_INJECT and KMC_CHECKED */
  uint32_t rounds;   /* objects in `loaded` */
  uint32_t capacity; /* capacity of `loaded`; 0 if no magazine is loaded */
  uint32_t previous_rounds;
  struct kmem_magazine* loaded;
  struct kmem_magazine* previous;
  uint64_t allocations;
  uint64_t frees;
} __attribute__((aligned(64)));
_Static_assert(sizeof(struct kmem_cpu) == 64, "the fast path reads one line");

/* Describes an object without using the object's own memory. The bufctl of a free object is in the
 * slab's list free_bufctls. While a caller or a magazine has the object, the bufctl is elsewhere.
 * In a page-backed cache it is in the slab's list idle_bufctls, because the page descriptor leads
 * from the object to the slab. In a KMC_NOTOUCH cache it is in the cache's hash, which leads from
 * the object to the bufctl and so to the slab. */
struct kmem_bufctl {
  struct kmem_bufctl* next;
  void* object;
  struct kmem_slab* slab;
#if SLAB_OS_CHECK_CALLS
  bool noted; /* kmem_qcache_note: a caller has the object */
#endif
};

enum slab_list { SLABS_PARTIAL, SLABS_FULL, SLABS_EMPTY, SLAB_LISTS };

/* The structure of a slab. A checked slab has it at the end of its own pages (struct checked_slab),
 * and a slab of small objects has it at the end of its page. Any other slab gets it from the cache
 * kmem_slab. */
struct kmem_slab {
  struct kmem_slab *next, *prev;
  struct kmem_cache* cache;
  char* base;      /* first object: `colour` bytes into the pages */
  uint32_t out;    /* objects that callers or magazines have */
  uint8_t list;    /* enum slab_list: the list that has this slab; unused in a checked slab */
  bool checked;    /* this structure begins a struct checked_slab (slab_check.c) */
  uint16_t colour; /* bytes from the start of the pages to the first object */
  union {
    void* free_objects; /* if cache->small: free objects, linked by their first word */
    struct kmem_bufctl* free_bufctls; /* otherwise: the bufctls of free objects */
  };
  /* If the cache is page-backed and not small: a bufctl for each object that is out. */
  struct kmem_bufctl* idle_bufctls;
};

/* slab_check.c's part of a cache. */
struct kmem_checks {
  /* Fixed at creation: the shape of checked slabs. */
  size_t gap;    /* bytes before the first object */
  size_t stride; /* bytes from object to object */
  size_t slab_size;
  uint32_t objects; /* objects in a slab */

  /* Accessed atomically. */
  bool on;          /* the cache is checked; changes under the cache's lock */
  uint64_t reports; /* reports since the cache was created */
  uint64_t shown;   /* reports, logged or only counted, since checking was last switched on */
};

/* The checked slabs of a cache. */
struct checked_slabs {
  struct checked_slab* lists[2][2]; /* the first and the last slab of each list */
  /* `slabs` counts the checked slabs, `empty` the checked slabs without allocated or
   * quarantined objects. `out` counts the checked objects that are out, `quarantined` the
   * quarantined objects. */
  uint64_t slabs, empty, out, quarantined;
};

extern struct slab_os_lock kmem_list_lock; /* of the list of caches (slab.c) */

struct kmem_cache {
  struct kmem_cache_head head;

  /* Fixed at creation. */
  size_t object_size; /* as requested */
  size_t stride;      /* bytes from object to object */
  size_t slab_size;
  uint32_t objects_per_slab;
  /* In bytes. The colours are the multiples of colour_step that are at most colour_max. */
  uint16_t colour_step, colour_max;

  bool small;       /* the slab structure and the links of free objects lie in the slab's page */
  uint32_t payload; /* bytes at the end of an object that hold no pointers */
  struct arena* arena;
  kmem_constructor constructor;
  kmem_destructor destructor;
  void* private_data;
  char name[KMEM_CACHE_NAME_MAX];

  /* Accessed atomically. */
  uint32_t flags;
  uint32_t zombie;   /* 1 once the cache is destroyed: magazines are not used any more */
  uint64_t failures; /* failed allocations */

  struct kmem_cache* next GUARDED_BY(kmem_list_lock);
  /* One reference belongs to the cache itself, until it is destroyed and all its objects are back.
   * kmem_cache_hold, _find and _next each add one. */
  uint64_t references GUARDED_BY(kmem_list_lock);

  struct slab_os_lock depot_lock;
  struct magazine_list magazines[DEPOT_LISTS] GUARDED_BY(depot_lock);
  /* Empty magazines of an old size, which wait to be freed. */
  struct kmem_magazine* misfits GUARDED_BY(depot_lock);
  uint64_t depot_rounds GUARDED_BY(depot_lock); /* objects in the full magazines */
  /* Type of new magazines; also read without the lock, atomically. */
  uint32_t magazine_type GUARDED_BY(depot_lock);
  /* Consecutive intervals without contention. */
  uint32_t calm_intervals GUARDED_BY(depot_lock);
  uint64_t contention GUARDED_BY(depot_lock); /* how often a CPU found depot_lock taken */
  /* `contention` at the last depot_update. */
  uint64_t contention_before GUARDED_BY(depot_lock);
  uint64_t resizes GUARDED_BY(depot_lock); /* changes of magazine_type */
  uint64_t reaped GUARDED_BY(depot_lock);  /* full magazines taken by reaping */

  struct slab_os_lock lock;
  struct kmem_slab* slabs[SLAB_LISTS] GUARDED_BY(lock);
  uint64_t slab_count[SLAB_LISTS] GUARDED_BY(lock);
  uint64_t objects_out GUARDED_BY(lock);
  uint16_t next_colour GUARDED_BY(lock); /* colour of the next slab */
  /* The cache is a zombie that waits for its last object. */
  bool awaits_last GUARDED_BY(lock);
  /* Frees that have returned their object and still use the cache. */
  uint32_t frees_under_way GUARDED_BY(lock);
  /* Slabs that slab_layer_reap is giving back to the arena. */
  uint32_t slabs_under_way GUARDED_BY(lock);
  /* The bufctls of the objects that are out; NULL if page-backed. */
  struct linear_hash* hash PT_GUARDED_BY(lock);

  struct kmem_checks checks;
  struct checked_slabs checked GUARDED_BY(lock);

  struct kmem_cpu cpu[]; /* slab_os_cpu_count() elements */
};

/* Returns this CPU's part of the cache. Interrupts are off. */
static inline struct kmem_cpu* cpu_part(struct kmem_cache* cache) {
  char* base = (char*)cache + slab_os_cpu() * sizeof(struct kmem_cpu);
  __asm__("" : "+r"(base)); /* one base register for all fields, each at a constant offset */
  return (struct kmem_cpu*)(base + offsetof(struct kmem_cache, cpu));
}
/* Stores `rounds` atomically, because other CPUs read it. */
static inline void set_rounds(struct kmem_cpu* cpu, uint32_t rounds) {
  __atomic_store_n(&cpu->rounds, rounds, __ATOMIC_RELAXED);
}
/* Takes an object out of the loaded magazine, which is not empty. */
static inline void* magazine_pop(struct kmem_cpu* cpu) {
  const uint32_t rounds = cpu->rounds - 1;
  set_rounds(cpu, rounds);
  return cpu->loaded->objects[rounds];
}
/* Puts an object into the loaded magazine, which is not full. */
static inline void magazine_push(struct kmem_cpu* cpu, void* object) {
  const uint32_t rounds = cpu->rounds;
  set_rounds(cpu, rounds + 1);
  cpu->loaded->objects[rounds] = object;
}

/* Holds a lock, with interrupts off, until the end of a scope. For the thread-safety analysis, the
 * guard is a capability too, which lock_guard_end() gives up together with the lock. */
struct SCOPED_CAPABILITY CAPABILITY("guard") lock_guard {
  struct slab_os_lock* lock;
  uint64_t saved;
};
static inline struct lock_guard lock_guard_begin(struct slab_os_lock* lock) ACQUIRE(lock) {
  const struct lock_guard guard = {lock, slab_os_irq_save()};
  slab_os_lock_acquire(lock);
  return guard;
}
/* No analysis: it cannot know that guard->lock is the lock that lock_guard_begin() took. */
static inline void lock_guard_end(const struct lock_guard* guard)
    RELEASE(*guard) NO_THREAD_SAFETY_ANALYSIS {
  slab_os_lock_release(guard->lock);
  slab_os_irq_restore(guard->saved);
}
#define LOCK_GUARD(lock)                                                            \
  const struct lock_guard guard_ __attribute__((cleanup(lock_guard_end), unused)) = \
      lock_guard_begin(lock)

/* The allocator's own caches. */
extern struct kmem_cache *const kmem_slab_cache, *const kmem_bufctl_cache, *const kmem_hash_cache;
extern struct kmem_cache* const kmem_magazine_caches[MAGAZINE_TYPES];

/* ---- slab_layer.c. Any context, no lock held. Callers never pass KM_SLEEP. */

/* Fills in stride, slab size and objects per slab; false if size or alignment is invalid. If
 * `slab_size` is 0, this function chooses the slab size. */
bool slab_layer_init(struct kmem_cache* cache, size_t align, size_t slab_size);
/* Makes an empty hash for bufctls. */
void slab_layer_hash_init(struct linear_hash* hash);
/* Allocates an object without constructing it; NULL when out of memory. */
void* slab_layer_alloc(struct kmem_cache* cache, int flags) EXCLUDES(cache->lock);
/* Takes back a destructed object. True if a zombie cache has now got its last object back: the
 * caller then drops a reference to the cache. */
bool slab_layer_free(struct kmem_cache* cache, void* object) EXCLUDES(cache->lock);
/* True if an object of an unchecked slab is free in its slab. For page-backed caches only. Time is
 * proportional to the slab's objects. */
bool slab_layer_is_free(struct kmem_cache* cache, const void* object) EXCLUDES(cache->lock);
/* Called when a cache is destroyed and becomes a zombie. True if the cache must wait before it can
 * be freed, because objects are out or frees are under way. */
bool slab_layer_await_last(struct kmem_cache* cache) EXCLUDES(cache->lock);
/* Returns the empty slabs to the arena. Any context. */
void slab_layer_reap(struct kmem_cache* cache) EXCLUDES(cache->lock);
/* Gives all slabs of a cache without live objects back to the arena, and waits for slabs and
 * objects that a concurrent reap is giving back. Busy-waits. Any context that a reap may be in. */
void slab_layer_reap_all(struct kmem_cache* cache) EXCLUDES(cache->lock);
/* Frees the slabs, which are all empty, and the hash. */
void slab_layer_finish(struct kmem_cache* cache) EXCLUDES(cache->lock);
void slab_layer_stats(struct kmem_cache* cache, struct kmem_cache_stats* stats)
    EXCLUDES(cache->lock);
/* Called when an object has come back or a free has ended. True if this
 * was the last object or free that a zombie cache waited for; true only once. If the result is
 * false, another CPU may free the cache as soon as the lock is released. While frees_under_way
 * counts a free, the cache is not freed. */
static inline bool slab_layer_was_last(struct kmem_cache* cache) REQUIRES(cache->lock) {
  const bool last = cache->awaits_last && cache->objects_out == 0 && cache->frees_under_way == 0;
  if (last) cache->awaits_last = false;
  return last;
}
/* Ends a free that frees_under_way counts. Returns what slab_layer_was_last returns. */
bool slab_layer_end_free(struct kmem_cache* cache) EXCLUDES(cache->lock);

/* ---- slab_check.c. Any context, no lock held. */

static inline bool slab_check_on(const struct kmem_cache* cache) {
  return __atomic_load_n(&cache->checks.on, __ATOMIC_RELAXED);
}
/* Chooses the shape of checked slabs. `align` is the alignment of objects, already adjusted by
 * slab_layer_init. For page-backed caches only. */
void slab_check_init(struct kmem_cache* cache, size_t align);
/* Switches checking on for a new cache if slab_os_check_new_cache(name) is true. The cache is not
 * in the list of caches yet. */
void slab_check_new_cache(struct kmem_cache* cache, const char* name);
/* Takes an object, not constructed, from a checked slab. NULL when out of memory, and also if the
 * cache is not checked any more. */
void* slab_check_take(struct kmem_cache* cache, int flags) EXCLUDES(cache->lock);
/* Called before a caller gets a constructed object: marks the object as allocated and fills in its
 * audit. Does nothing if the object's slab is not checked. */
void slab_check_allocated(struct kmem_cache* cache, void* object, size_t requested,
                          const void* frame);
/* Checks an address that a caller frees to the cache. */
enum check_outcome {
  CHECK_REFUSED,   /* not an allocated object of the cache; this has been reported */
  CHECK_UNCHECKED, /* an object of an unchecked slab */
  CHECK_PASSED,    /* a checked object, which the caller now frees with slab_layer_free */
};
enum check_outcome slab_check_free(struct kmem_cache* cache, void* object, const void* frame)
    EXCLUDES(cache->lock);
/* True if an object that leaves a magazine belongs to the cache. If the object belongs to a checked
 * slab of another cache, reports this and returns false. Panics if the address is in no slab, or in
 * an unchecked slab of another cache. */
bool slab_check_owner(struct kmem_cache* cache, void* object);
bool slab_check_is_checked(const void* object);
/* Takes back a destructed object of a checked slab. Returns what slab_layer_free returns. */
bool slab_check_put(struct kmem_cache* cache, void* object) EXCLUDES(cache->lock);
/* Returns empty checked slabs to the arena. */
void slab_check_reap(struct kmem_cache* cache) EXCLUDES(cache->lock);
/* Frees all checked slabs before the cache's structure is freed, and reports damaged free
 * objects. */
void slab_check_finish(struct kmem_cache* cache) EXCLUDES(cache->lock);
/* Adds the counts of checked slabs to `stats`. */
void slab_check_stats(const struct kmem_cache* cache, struct kmem_cache_stats* stats)
    REQUIRES(cache->lock);
/* Compares the counts with the lists. Returns NULL or an error message, and stores the number of
 * checked objects that are out. */
const char* slab_check_verify(const struct kmem_cache* cache, uint64_t* out) REQUIRES(cache->lock);
/* Visits the checked slabs for kmem_walk_cache (slab_walk.h). */
struct kmem_walk;
void slab_check_walk(const struct kmem_cache* cache, struct kmem_walk* walk);

/* ---- slab_depot.c. Any context, unless stated otherwise; no lock held. */

/* Size in bytes of a magazine of this type. */
size_t magazine_bytes(unsigned type);
/* Allocates an empty magazine of the size that the cache uses now; NULL when out of memory. */
struct kmem_magazine* magazine_make(struct kmem_cache* cache);
void magazine_free(struct kmem_magazine* magazine);
void depot_init(struct kmem_cache* cache);
/* Take a full or an empty magazine out of the depot; NULL if the depot has none. */
struct kmem_magazine* depot_take_full(struct kmem_cache* cache) EXCLUDES(cache->depot_lock);
struct kmem_magazine* depot_take_empty(struct kmem_cache* cache) EXCLUDES(cache->depot_lock);
/* Puts a magazine with `rounds` objects into the depot: into the full list unless `rounds` is 0. */
void depot_put(struct kmem_cache* cache, struct kmem_magazine* magazine, uint32_t rounds)
    EXCLUDES(cache->depot_lock);
/* Ends an interval: the magazines that nobody took during the interval become the surplus. New
 * magazines get larger if CPUs have waited for the depot's lock, and smaller if no CPU has waited
 * for a long time. May sleep. */
void depot_update(struct kmem_cache* cache) EXCLUDES(cache->depot_lock);
/* Takes a full magazine out of the depot for the caller to free. With `surplus_only`, takes only
 * magazines of the surplus. NULL if there is none. */
struct kmem_magazine* depot_reap_full(struct kmem_cache* cache, bool surplus_only)
    EXCLUDES(cache->depot_lock);
/* Frees the depot's empty magazines, or only their surplus. */
void depot_reap_empty(struct kmem_cache* cache, bool surplus_only) EXCLUDES(cache->depot_lock);
void depot_stats(struct kmem_cache* cache, struct kmem_cache_stats* stats)
    EXCLUDES(cache->depot_lock);

/* ---- slab_magazine.c */

/* Caches whose magazines all CPUs give up in one interprocessor interrupt: up to 32 magazines for
 * each CPU. */
struct cache_batch {
  struct kmem_cache* caches[16];
  unsigned count;
};
/* True if a CPU has a magazine with objects. Takes no lock; the answer may be stale. */
bool magazines_loaded(const struct kmem_cache* cache);
/* Moves every CPU's magazines of the batch's caches to the depots of these caches. May sleep. */
void magazines_unload(struct cache_batch* batch);
/* Frees the depot's magazines, or only the surplus ones, and returns their objects to the slabs.
 * May sleep. */
void magazines_reap(struct kmem_cache* cache, bool surplus_only);
/* Takes all magazines away from the CPUs and the depot of a cache that has stopped using them: a
 * zombie, or a checked cache. May sleep. */
void magazines_retire(struct kmem_cache* cache);
/* Frees empty magazines that have come to the depot since magazines_retire. Any context. */
void magazines_finish(struct kmem_cache* cache);
/* Returns the objects in this CPU's magazines of the cache to the slabs. Interrupts off. */
void magazines_drain_cpu(struct kmem_cache* cache);
void magazines_stats(struct kmem_cache* cache, struct kmem_cache_stats* stats);

/* ---- slab.c */

/* Drops a reference, in any context. After the last reference is gone, the next call of
 * kmem_cache_create, _destroy, _release or _next, or of kmem_update, frees the cache. */
void kmem_cache_release_later(struct kmem_cache* cache) EXCLUDES(kmem_list_lock);

#ifdef __cplusplus
}
#endif
