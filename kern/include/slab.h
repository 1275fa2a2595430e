/* Object caches, after Bonwick, "The Slab Allocator" (USENIX 1994), and Bonwick & Adams, "Magazines
 * and Vmem" (USENIX 2001). C and C++. The theory is in src/slab.c.
 */
#pragma once

#include "slab_os.h"

enum { KMEM_CACHE_NAME_MAX = 32 };

#ifdef __cplusplus
extern "C" {
#endif

struct kmem_cache;
struct arena;
struct trace_table;

/* Flags of a cache. All fit in a byte: each CPU has a copy of that size. */
enum {
  KMC_NOTOUCH = 0x1, /* never write to free objects, and keep bufctls outside of them; for objects
                        that are not memory of the direct map */
  KMC_NOTRACE = 0x2, /* cannot be traced: caches that the tracer and the allocator need */
  KMC_NOMAGAZINE = 0x4,   /* allocations come directly from slabs */
  KMC_QCACHE = 0x8,       /* quantum cache of an arena */
  KMC_TRACED = 0x10,      /* record allocations (state; the tracer sets it) */
  KMC_EVER_TRACED = 0x20, /* look records up on free (state; the tracer sets it) */
  KMC_INJECT = 0x40, /* ask whether an allocation shall fail (state; kmem_inject_begin sets it) */
  KMC_CHECKED =
      0x80, /* a freed object may lie in a checked slab (state; kmem_cache_check_start sets it) */
};

/* Flags of an allocation. */
enum {
  KM_ATOMIC = 0x0, /* any context but NMI: never sleeps, never reaps */
  KM_SLEEP = 0x1,  /* may sleep while memory is reaped; can still fail */
  KM_ZERO = 0x2,   /* zeroed; only for caches without constructor */
  /* Allocation policies of an arena (arena.h). At most one is given; caches ignore both. */
  KM_BESTFIT = 0x10, /* the smallest free segment that is large enough */
  KM_NEXTFIT = 0x20, /* the next free segment after the last KM_NEXTFIT allocation */
  /* For arena_create only. */
  KM_NOTRACE = 0x100, /* the arena cannot be traced */
};

typedef int (*kmem_constructor)(void* object, void* private_data,
                                int flags); /* returns 0, or not 0 when out of memory */
typedef void (*kmem_destructor)(void* object, void* private_data);

/* Not 0 if a cache or arena may have the name. The name becomes a file name and a column of a
 * table: printable ASCII without blank and slash, and not "." or "..". */
int kmem_is_name(const char* name);

/* Makes a cache of objects of `size` bytes (1..UINT32_MAX-1), aligned to `align` (a power of two,
 * at most a page if the objects are touched; 0: natural), whose slabs come from `source` (NULL: the
 * page arena). `name` is copied; a second cache of the same name is called NAME.2, and so on. NULL
 * when out of memory. An invalid size, alignment or name panics. For a cache that is not
 * KMC_NOTRACE, `source` must hand out canonical 48-bit addresses, and the caller must hold no
 * sleeping lock of rank kTraceControl or below. May sleep. */
struct kmem_cache* kmem_cache_create(const char* name, size_t size, size_t align, int flags,
                                     struct arena* source, kmem_constructor constructor,
                                     kmem_destructor destructor, void* private_data);
/* Makes a quantum cache of the arena `source`: objects of `size` bytes in slabs of `slab_size`
 * bytes, neither touched nor traced. Fails as kmem_cache_create does. May sleep. */
struct kmem_cache* kmem_qcache_create(const char* name, size_t size, size_t slab_size,
                                      struct arena* source);
/* With CONFIG_SLAB_CHECK_CALLS an arena reports each object of its quantum caches that a caller
 * gets (`out` is 1) or is about to free (`out` is 0). Returns NULL, or an error message. */
const char* kmem_qcache_note(struct kmem_cache* cache, const void* object, int out);
/* Destroys a cache. If objects are live, logs their number and keeps the cache as a zombie until
 * they are freed. May sleep. */
void kmem_cache_destroy(struct kmem_cache* cache);

/* Allocates an object; NULL when out of memory. With KM_ATOMIC: any context but NMI.
 *
 * Invalid calls panic: KM_SLEEP where the caller may not sleep, KM_ZERO of a cache with a
 * constructor, more bytes than an object has. CONFIG_SLAB_CHECK_CALLS checks each call; otherwise
 * only calls that find the CPU's magazines and the depot empty are checked. */
void* kmem_cache_alloc(struct kmem_cache* cache, int flags);
/* Frees an object; `object` may be NULL. Any context but NMI. */
void kmem_cache_free(struct kmem_cache* cache, void* object);
/* As kmem_cache_alloc, for callers who use only the first `requested` bytes of the object. A trace
 * shows `requested` as the size. */
void* kmem_cache_alloc_sized(struct kmem_cache* cache, size_t requested, int flags);

/* Usable bytes of a live page-backed object: the whole object, or the requested size if the object
 * is checked. */
size_t kmem_cache_usable_size(const struct kmem_cache* cache, const void* object);
/* Logs the object that contains the address, its cache, and for a checked object the stacks that
 * allocated and freed it. For reports: any context, no lock. */
void kmem_log_object(const void* address);
/* The cache that a page-backed object belongs to; NULL if its page has none. */
struct kmem_cache* kmem_cache_of(const void* object);

const char* kmem_cache_name(const struct kmem_cache* cache);
size_t kmem_cache_object_size(const struct kmem_cache* cache);
int kmem_cache_flags(const struct kmem_cache* cache);
struct arena* kmem_cache_source(const struct kmem_cache* cache);
/* Not 0 for a zombie: destroyed, and kept only for its live objects or for a held reference. */
int kmem_cache_is_zombie(const struct kmem_cache* cache);

struct kmem_cache_stats {
  size_t object_size;
  uint64_t allocations; /* since the cache was made */
  uint64_t frees;       /* since the cache was made */
  uint64_t live;        /* allocations - frees, exact when the cache is quiet */
  uint64_t total_bytes; /* bytes of all slabs */
  uint64_t slabs;
  uint64_t objects_in_slabs; /* all objects that the slabs have, live or free */
  uint64_t objects_out; /* those of objects_in_slabs that the slabs have handed out: live objects,
                           and free ones in magazines */
  uint64_t magazine_rounds;         /* free objects in magazines and depot */
  uint64_t magazine_size;           /* rounds that a new magazine holds; 0 if the cache uses none */
  uint64_t depot_full, depot_empty; /* magazines in the depot */
  uint64_t hash_buckets, hash_items; /* buckets and entries of the bufctl hash; 0: no hash */
  uint64_t hash_bytes;               /* bytes of the hash, from slab_os_metadata_source() */
  uint64_t failures;                 /* allocations that returned NULL */
  uint64_t magazine_resizes;         /* how often magazines have grown */
  uint64_t depot_contention;         /* how often a CPU has waited for the depot's lock */
  uint64_t depot_surplus; /* magazines in depot_full that were not used in the last interval
                             (kmem_update) */
  uint64_t depot_reaped;  /* full magazines that have been reaped */
  uint64_t checked;       /* 1 while the cache is switched to checking */
  uint64_t checked_out;   /* objects in objects_out that are checked when they are freed */
  uint64_t quarantined;   /* damaged objects in objects_in_slabs, never handed out again */
  uint64_t reports;       /* reports of checks, ever */
};
/* Sums the CPUs' counters without stopping the CPUs. Any context. */
void kmem_cache_stats(struct kmem_cache* cache, struct kmem_cache_stats* stats);

/* Returns the cache after `cache` in order of creation, and takes a reference to the returned
 * cache. `cache` NULL: returns the first cache; after the last returns NULL. Releases the caller's
 * reference to `cache`. for (c = kmem_cache_next(NULL); c; c = kmem_cache_next(c)) … */
struct kmem_cache* kmem_cache_next(struct kmem_cache* cache);
/* Finds a cache by name, and takes a reference. NULL if there is none. */
struct kmem_cache* kmem_cache_find(const char* name);
/* A held reference keeps the structure (as a zombie after destroy), not the cache's objects. */
void kmem_cache_hold(struct kmem_cache* cache);
void kmem_cache_release(struct kmem_cache* cache);

/* For the tracer. */
/* Sets and clears bits (KMC_TRACED, KMC_EVER_TRACED) in this CPU's copy of the flags. Interrupts
 * off. */
void kmem_cache_cpu_flags(struct kmem_cache* cache, int set, int clear);
/* Sets bits in all CPUs' copies, including CPUs that have not started yet. The caller is the only
 * user of the cache. */
void kmem_cache_unused_flags(struct kmem_cache* cache, int set);
/* Sets and clears bits (KMC_TRACED, KMC_EVER_TRACED) in the flags that kmem_cache_flags returns. */
void kmem_cache_master_flags(struct kmem_cache* cache, int set, int clear);
struct trace_table** kmem_cache_trace_slot(struct kmem_cache* cache);
/* The first member of struct kmem_cache: the part that other files may access. */
struct kmem_cache_head {
  struct trace_table* trace; /* for the tracer; accessed with atomic builtins */
};
/* Loads the cache's trace table from the slot, in one instruction. */
static inline struct trace_table* kmem_cache_trace(const struct kmem_cache* cache) {
  return __atomic_load_n(&((const struct kmem_cache_head*)cache)->trace, __ATOMIC_ACQUIRE);
}

/* Tracing for callers inside the kernel. `options` as in a write to #mem/kmemtrace/NAME ("depth=16
 * min=100"), NULL for none. Returns 0 or a negated error number. The caller may sleep and holds no
 * spinlock. Implemented in src/trace/. */
int kmem_trace_start(struct kmem_cache* cache, const char* options);
int kmem_trace_stop(struct kmem_cache* cache);
int kmem_trace_reset(struct kmem_cache* cache);
int kmem_trace_print(struct kmem_cache* cache); /* writes the dump to the kernel log */
/* Declares that `object`, live memory from a cache, kmalloc or the page arena, is kept
 * intentionally: the leak test counts the object, but does not report it as a leak. For structures
 * that are made on first use and never freed. Does nothing if `object` is NULL or has no record.
 * Any context but NMI. Implemented in src/trace/. */
void kmem_not_leak(const void* object);

/* Fault injection: makes allocations fail, to test how their callers handle that. Fault injection
 * shares the tracer's flag test on the fast path, so it costs nothing while it is off. */
enum kmem_inject_site {
  /* `source` is the cache, which may be KMC_NOTRACE. An allocation from a quantum cache is a
   * KMEM_INJECT_ARENA instead. */
  KMEM_INJECT_CACHE,
  KMEM_INJECT_ARENA, /* a direct caller allocates from an arena: `source` is the arena */
  KMEM_INJECT_TRACE, /* a page for the tracer; `source` is NULL */
};
/* Returns 0 to let the allocation succeed. Called with interrupts off, in any context, with any
 * lock held that ranks above a cache's. Takes no lock and allocates nothing. */
typedef int (*kmem_inject_function)(enum kmem_inject_site site, const void* source, size_t size,
                                    int flags);
/* From now on every CPU calls `function` before each allocation. Returns 0, with nothing done, if
 * there is another function already. An injected failure returns NULL and is counted as a failure
 * of its cache or arena; the tracer does not see it. May sleep. */
int kmem_inject_begin(kmem_inject_function function);
/* Ends fault injection. When it returns, no CPU runs the function. May sleep. */
void kmem_inject_end(void);
/* Calls the function of kmem_inject_begin; returns 0 if there is none. For allocators; any context
 * but NMI. */
int kmem_inject(enum kmem_inject_site site, const void* source, size_t size, int flags);
/* Not 0 while fault injection is on. A cheap test for frequent allocators. Any context. */
extern kmem_inject_function kmem_injector; /* accessed with atomic builtins */
static inline int kmem_inject_wanted(void) {
  return __atomic_load_n(&kmem_injector, __ATOMIC_RELAXED) != 0;
}

/* Run-time checking. A checked cache reports these errors on the log: writes before or after an
 * object, writes to a free object, double frees, and frees to the wrong cache. The system then goes
 * on. src/slab_check.c lists when each error is found. Callers serialise start and stop; both may
 * sleep. */
int kmem_cache_can_be_checked(
    const struct kmem_cache* cache); /* 0 if the cache is KMC_NOTOUCH or KMC_NOTRACE */
void kmem_cache_check_start(struct kmem_cache* cache);
void kmem_cache_check_stop(struct kmem_cache* cache);
/* Checks all objects of checked slabs, allocated ones too. Reports newly damaged objects and
 * returns their number. Any context; interrupts are off for one object at a time. */
uint64_t kmem_cache_check_scan(struct kmem_cache* cache);

/* Makes the allocator's own caches. Called once, before anything else, with one CPU. */
void kmem_init(void);
/* Returns the objects in this CPU's magazines to the slabs, for all caches. Interrupts off. Bound:
 * 124 objects for each cache. */
void kmem_drain_cpu(void);
/* Reaping returns free objects of all caches to the slabs, and empty slabs to their sources. */
enum kmem_reap_extent {
  KMEM_REAP_SURPLUS, /* magazines of the depots that were not used in the last interval
                        (kmem_update) */
  KMEM_REAP_DEPOTS,  /* all magazines of the depots */
  KMEM_REAP_ALL,     /* the CPUs' magazines, too */
};
/* Registers a function of another subsystem that has cached memory (the page cache). The function
 * is called before each reap. With KMEM_REAP_SURPLUS it frees the cached memory that has not been
 * used since the last such reap, otherwise all cached memory. The function takes no sleeping lock,
 * and allocates nothing. Called once, at boot. */
void kmem_set_reaper(void (*reap)(enum kmem_reap_extent extent));
/* An allocation that may sleep and finds no memory calls this function with each extent, in the
 * order of the enum, until there is memory. May sleep: interrupts on, no spinlock held. */
void kmem_reap_some(enum kmem_reap_extent extent);
/* Reaps everything. May sleep. */
void kmem_reap(void);
/* Ends an interval of some seconds. Magazines that the depots have not used in the interval become
 * the surplus, which is reaped first; caches whose CPUs have waited for the depot get larger
 * magazines. May sleep. */
void kmem_update(void);
/* Walks all slabs of the cache under its lock and compares them with its counts. Returns NULL or an
 * error message. For tests and debugging. */
const char* kmem_cache_verify(struct kmem_cache* cache);

#ifdef __cplusplus
}
#endif
