/* Internals shared by slab.c (caches), slab_magazine.c (the layer of CPUs), slab_depot.c (depot),
 * slab_layer.c (slabs) and slab_check.c (checked slabs). arena_traced.cc uses the layer of CPUs for
 * quantum caches. C and C++. The theory is in slab.c. */
#pragma once

#include "linear_hash.h"
#include "slab.h"
#include "slab_trace.h"

#ifdef __cplusplus
#define _Static_assert static_assert
extern "C" {
#endif

#define UNLIKELY(x) __builtin_expect(!!(x), 0)

/* The flags that take an allocation or a free off the fast path, in one test. */
enum {
  KMC_ALLOC_HOOKS = SLAB_OS_FLAG_TESTS ? KMC_TRACED | KMC_INJECT : 0,
  KMC_FREE_HOOKS = SLAB_OS_FLAG_TESTS ? KMC_EVER_TRACED | KMC_CHECKED : 0
};

enum { MAGAZINE_TYPES = 5 }; /* sizes of magazines */

/* A stack of free, constructed objects. */
struct kmem_magazine {
  struct kmem_magazine* next; /* in a list of the depot */
  uint32_t rounds;            /* valid while in a list of the depot */
  uint32_t capacity;          /* for good */
  void* objects[];
};

/* A list of the depot. */
struct magazine_list {
  struct kmem_magazine* first;
  uint64_t count;
  uint64_t min;     /* the lowest count since the last update: so many were not used */
  uint64_t surplus; /* the lowest count of the interval before, less those already reaped */
};

/* The CPU's part of a cache. Only that CPU touches it, with interrupts off; others read the
 * statistics. */
struct kmem_cpu {
  uint8_t flags;     /* this CPU's KMC_TRACED, KMC_EVER_TRACED, KMC_INJECT and KMC_CHECKED */
  uint32_t rounds;   /* objects in `loaded` */
  uint32_t capacity; /* of `loaded`; 0 while there is none */
  uint32_t previous_rounds;
  struct kmem_magazine* loaded;
  struct kmem_magazine* previous;
  uint64_t allocations;
  uint64_t frees;
} __attribute__((aligned(64)));
_Static_assert(sizeof(struct kmem_cpu) == 64, "the fast path reads one line");

/* Marks an object as free. While the object is out, its bufctl waits in the slab (page-backed) or
 * is in the cache's hash and names the object's slab. */
struct kmem_bufctl {
  struct kmem_bufctl* next;
  void* object;
  struct kmem_slab* slab;
#if SLAB_OS_CHECK_CALLS
  bool noted; /* kmem_qcache_note: a caller has the object */
#endif
};

enum slab_list { SLABS_PARTIAL, SLABS_FULL, SLABS_EMPTY, SLAB_LISTS };

/* At the end of the page for small objects, otherwise from the cache kmem_slab. */
struct kmem_slab {
  struct kmem_slab *next, *prev;
  struct kmem_cache* cache;
  char* base;      /* first object: `colour` bytes into the pages */
  uint32_t out;    /* objects given out */
  uint8_t list;    /* enum slab_list: that it is in; unused in a checked slab */
  bool checked;    /* it begins a struct checked_slab (slab_check.c) */
  uint16_t colour; /* bytes */
  union {
    void* free_objects;               /* small: linked through their first word */
    struct kmem_bufctl* free_bufctls; /* otherwise */
  };
  struct kmem_bufctl* idle_bufctls; /* page-backed with bufctls: one for each object that is out */
};

/* slab_check.c's part of a cache. */
struct kmem_checks {
  /* Fixed at creation: the shape of checked slabs. */
  size_t gap;    /* before the first object */
  size_t stride; /* from object to object */
  size_t slab_size;
  uint32_t objects; /* of a slab */

  /* Atomic. */
  bool on;          /* changes under the lock */
  uint64_t reports; /* ever */
  uint64_t shown;   /* reports, logged or only counted, since checking was switched on */

  /* Lock of the cache. */
  struct checked_slab* lists[2][2];        /* first and last */
  uint64_t slabs, empty, out, quarantined; /* the first two in slabs, the others in objects */
};

struct kmem_cache {
  struct kmem_cache_head head;

  /* Fixed at creation. */
  size_t object_size; /* as requested */
  size_t stride;      /* from object to object */
  size_t slab_size;
  uint32_t objects_per_slab;
  uint16_t colour_step, colour_max; /* colours are multiples of the step up to the maximum; bytes */

  bool small; /* slab structure and links are in the page */
  struct arena* source;
  kmem_constructor constructor;
  kmem_destructor destructor;
  void* private_data;
  char name[KMEM_CACHE_NAME_MAX];

  /* Atomic. */
  uint32_t flags;
  uint32_t zombie; /* destroyed: magazines are not used any more */
  uint64_t failures;

  /* Lock of the list of caches. */
  struct kmem_cache* next;
  uint64_t references; /* one for being alive or having live objects, one for each holder */

  struct slab_os_lock depot_lock;
  struct magazine_list full, empty;
  struct kmem_magazine* misfits; /* empty ones of an old size, until the next update */
  uint64_t depot_rounds;         /* objects in `full` */
  uint32_t magazine_type;        /* of new magazines; read without the lock too */
  uint32_t calm_intervals;       /* consecutive intervals without contention */
  uint64_t contention;           /* how often a CPU found the lock taken */
  uint64_t contention_before;    /* the same at the last update */
  uint64_t resizes;
  uint64_t reaped; /* full magazines */

  struct slab_os_lock lock;
  struct kmem_slab* slabs[SLAB_LISTS];
  uint64_t slab_count[SLAB_LISTS];
  uint64_t objects_out;
  uint16_t next_colour;     /* of the next slab */
  bool mourned;             /* a zombie that waits for its last object */
  uint32_t frees_under_way; /* the object is back, but the free still uses the cache */
  struct linear_hash*
      hash; /* of the bufctls whose objects are out, by object; NULL if page-backed */

  struct kmem_checks checks;

  struct kmem_cpu cpu[]; /* slab_os_cpu_count() */
};

/* This CPU's part. Interrupts are off. */
static inline struct kmem_cpu* cpu_part(struct kmem_cache* cache) {
  char* base = (char*)cache + slab_os_cpu() * sizeof(struct kmem_cpu);
  __asm__("" : "+r"(base)); /* one base register for all fields, each at a constant offset */
  return (struct kmem_cpu*)(base + offsetof(struct kmem_cache, cpu));
}
/* An atomic store: other CPUs read it. */
static inline void set_rounds(struct kmem_cpu* cpu, uint32_t rounds) {
  __atomic_store_n(&cpu->rounds, rounds, __ATOMIC_RELAXED);
}

/* A lock held, with interrupts off, for the life of a scope. */
struct lock_guard {
  struct slab_os_lock* lock;
  uint64_t saved;
};
static inline struct lock_guard lock_guard_begin(struct slab_os_lock* lock) {
  const struct lock_guard guard = {lock, slab_os_irq_save()};
  slab_os_lock_acquire(lock);
  return guard;
}
static inline void lock_guard_end(const struct lock_guard* guard) {
  slab_os_lock_release(guard->lock);
  slab_os_irq_restore(guard->saved);
}
#define LOCK_GUARD(lock)                                                            \
  const struct lock_guard guard_ __attribute__((cleanup(lock_guard_end), unused)) = \
      lock_guard_begin(lock)

/* The allocator's own caches. */
extern struct kmem_cache *const kmem_slab_cache, *const kmem_bufctl_cache, *const kmem_hash_cache;
extern struct kmem_cache* const kmem_magazine_caches[MAGAZINE_TYPES];

/* ---- slab_layer.c. Any context (with KM_ATOMIC), no lock held. */

/* Fills in stride, slab size and number of objects; false if size and alignment are invalid.
 * `slab_size` 0: chosen here. */
bool slab_layer_init(struct kmem_cache* cache, size_t align, size_t slab_size);
/* Makes an empty hash for bufctls. */
void slab_layer_hash_init(struct linear_hash* hash);
/* An object, not constructed; NULL when out of memory. */
void* slab_layer_alloc(struct kmem_cache* cache, int flags);
/* Takes back a destructed object. True if it was the last one that a zombie waited for: the caller
 * then drops a reference. */
bool slab_layer_free(struct kmem_cache* cache, void* object);
/* True if an object of an unchecked slab is free in its slab. Page-backed caches; time is
 * proportional to the slab's objects. */
bool slab_layer_is_free(struct kmem_cache* cache, const void* object);
/* At the end of a cache. True if objects are out or frees under way: the zombie then waits for the
 * last of them. */
bool slab_layer_mourn(struct kmem_cache* cache);
/* Returns the empty slabs to the source. Any context. */
void slab_layer_reap(struct kmem_cache* cache);
/* Frees the slabs, which are all empty, and the hash. */
void slab_layer_finish(struct kmem_cache* cache);
void slab_layer_stats(struct kmem_cache* cache, struct kmem_cache_stats* stats);
/* Called when an object has come back. True, once, if it was the last one that a zombie waited for.
 * The cache's lock is held; after its release the cache may be gone unless this free is counted as
 * under way. */
static inline bool slab_layer_was_last(struct kmem_cache* cache) {
  const bool last = cache->mourned && cache->objects_out == 0 && cache->frees_under_way == 0;
  if (last) cache->mourned = false;
  return last;
}
/* Ends a free that was counted as under way. Returns the same; takes the lock itself. */
bool slab_layer_end_free(struct kmem_cache* cache);

/* ---- slab_check.c. Any context, no lock held. */

static inline bool slab_check_on(const struct kmem_cache* cache) {
  return __atomic_load_n(&cache->checks.on, __ATOMIC_RELAXED);
}
/* Chooses the shape of checked slabs; `align` after rounding. Page-backed caches only. */
void slab_check_init(struct kmem_cache* cache, size_t align);
/* Checks a cache that is not in the list yet from the beginning, if the system is told to. */
void slab_check_new_cache(struct kmem_cache* cache, const char* name);
/* As slab_layer_alloc, from checked slabs. NULL also if the cache is not checked any more. */
void* slab_check_take(struct kmem_cache* cache, int flags);
/* A caller is about to get a constructed object. Does nothing if its slab is not checked. */
void slab_check_allocated(struct kmem_cache* cache, void* object, size_t requested,
                          const void* frame);
/* Checks an address that a caller frees to the cache. */
enum check_outcome {
  CHECK_REFUSED,   /* no allocated object of the cache: reported */
  CHECK_UNCHECKED, /* an object of an unchecked slab */
  CHECK_PASSED,    /* it goes to its slab, through slab_layer_free */
};
enum check_outcome slab_check_free(struct kmem_cache* cache, void* object, const void* frame);
/* True if an object that leaves a magazine belongs to the cache. Reports a checked object of
 * another cache and returns false; panics for anything else. */
bool slab_check_owner(struct kmem_cache* cache, void* object);
bool slab_check_is_checked(const void* object);
/* As slab_layer_free, for a checked object. */
bool slab_check_put(struct kmem_cache* cache, void* object);
/* Gives empty checked slabs back. May sleep. */
void slab_check_reap(struct kmem_cache* cache);
/* At the end of a cache. */
void slab_check_finish(struct kmem_cache* cache);
/* The cache's lock is held. The first adds to `stats`; the second returns NULL or an error message,
 * and the number of checked objects that are out. */
void slab_check_stats(const struct kmem_cache* cache, struct kmem_cache_stats* stats);
const char* slab_check_verify(const struct kmem_cache* cache, uint64_t* out);
/* kmem_walk_cache (slab_walk.h) for checked slabs. */
struct kmem_walk;
void slab_check_walk(const struct kmem_cache* cache, struct kmem_walk* walk);

/* ---- slab_depot.c. Any context, unless stated otherwise; no lock held. */

/* Bytes of a magazine of a type. */
size_t magazine_bytes(unsigned type);
/* An empty magazine of the cache's current size; NULL when out of memory. */
struct kmem_magazine* magazine_make(struct kmem_cache* cache);
void magazine_free(struct kmem_magazine* magazine);
void depot_init(struct kmem_cache* cache);
/* NULL if there is none. */
struct kmem_magazine* depot_take_full(struct kmem_cache* cache);
struct kmem_magazine* depot_take_empty(struct kmem_cache* cache);
/* Puts back a magazine with `rounds` objects, as a full one if it has any. */
void depot_put(struct kmem_cache* cache, struct kmem_magazine* magazine, uint32_t rounds);
/* Ends an interval: the magazines that it did not use become the surplus. Enlarges new magazines if
 * CPUs have waited for the lock, and makes them smaller if none has for a long time. May sleep. */
void depot_update(struct kmem_cache* cache);
/* Takes a full magazine, or only one of the surplus, out of the depot for good; NULL if there is
 * none. */
struct kmem_magazine* depot_reap_full(struct kmem_cache* cache, bool surplus_only);
/* Frees the empty magazines, or only their surplus. */
void depot_reap_empty(struct kmem_cache* cache, bool surplus_only);
void depot_stats(struct kmem_cache* cache, struct kmem_cache_stats* stats);

/* ---- slab_magazine.c */

/* Caches that all CPUs handle in one interprocessor interrupt: up to 32 magazines for each CPU. */
struct cache_batch {
  struct kmem_cache* caches[16];
  unsigned count;
};
/* True if a CPU has a magazine with objects. Takes no lock; the answer may be stale. */
bool magazines_loaded(const struct kmem_cache* cache);
/* Moves the magazines of every CPU to the depots. May sleep. */
void magazines_unload(struct cache_batch* batch);
/* Frees the magazines of the depot, or only its surplus; their objects go to the slabs. May
 * sleep. */
void magazines_reap(struct kmem_cache* cache, bool surplus_only);
/* Takes all magazines away from the CPUs and the depot of a cache that has stopped using them: a
 * zombie, or a checked cache. May sleep. */
void magazines_retire(struct kmem_cache* cache);
/* Frees empty magazines that have come to the depot after that. Any context. */
void magazines_finish(struct kmem_cache* cache);
/* Returns the objects in this CPU's magazines of the cache to the slabs. Interrupts off. */
void magazines_drain_cpu(struct kmem_cache* cache);
void magazines_stats(struct kmem_cache* cache, struct kmem_cache_stats* stats);

/* ---- slab.c */

/* Drops a reference, in any context. After the last one the next create, destroy or release frees
 * the cache. */
void kmem_cache_release_later(struct kmem_cache* cache);

#ifdef __cplusplus
}
#endif
