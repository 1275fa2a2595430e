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
  KMC_NOTOUCH = 0x1,      /* never write to free objects: bufctls outside; for objects that are not
                             memory of the direct map */
  KMC_NOTRACE = 0x2,      /* cannot be traced: caches that the tracer and the allocator need */
  KMC_NOMAGAZINE = 0x4,   /* straight from slabs */
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
  /* Allocation policy of an arena, at most one (arena.h). Caches ignore them. */
  KM_BESTFIT = 0x10, /* the smallest free segment that is large enough */
  KM_NEXTFIT = 0x20, /* the next one after the last allocation */
  /* arena_create only. */
  KM_NOTRACE = 0x100, /* the arena cannot be traced */
};

typedef int (*kmem_constructor)(void* object, void* private_data,
                                int flags); /* 0, or non-zero: out of memory */
typedef void (*kmem_destructor)(void* object, void* private_data);

/* Not 0 if a cache or arena may have the name. The name becomes a file name and a column of a
 * table: printable ASCII without blank and slash, and not "." or "..". */
int kmem_is_name(const char* name);

/* Makes a cache of objects of `size` bytes (1..UINT32_MAX-1), aligned to `align` (a power of two,
 * at most a page if the objects are touched; 0: natural), whose slabs come from `source` (NULL: the
 * page arena). `name` is copied; a second cache of the same name is called NAME.2, and so on. NULL
 * when out of memory. An invalid size, alignment or name panics. Unless the cache is KMC_NOTRACE,
 * `source` hands out canonical 48-bit addresses, and the caller holds no sleeping lock of rank
 * kTraceControl or below. May sleep. */
struct kmem_cache* kmem_cache_create(const char* name, size_t size, size_t align, int flags,
                                     struct arena* source, kmem_constructor constructor,
                                     kmem_destructor destructor, void* private_data);
/* A quantum cache of the arena `source`: objects of `size` bytes in slabs of `slab_size`, neither
 * touched nor traced. As above. */
struct kmem_cache* kmem_qcache_create(const char* name, size_t size, size_t slab_size,
                                      struct arena* source);
/* With CONFIG_SLAB_CHECK_CALLS an arena reports which objects of its quantum caches its callers
 * have: `out` is 1 when a caller gets the object, 0 when one is about to free it. Returns NULL, or
 * an error message. */
const char* kmem_qcache_note(struct kmem_cache* cache, const void* object, int out);
/* Ends a cache. If objects are live, logs their number and keeps the cache as a zombie until they
 * are freed. May sleep. */
void kmem_cache_destroy(struct kmem_cache* cache);

/* An object, or NULL when out of memory. Any context but NMI with KM_ATOMIC.
 *
 * Invalid calls panic: KM_SLEEP where the caller may not sleep, KM_ZERO of a cache with a
 * constructor, more bytes than an object has. CONFIG_SLAB_CHECK_CALLS checks each call; otherwise
 * only calls that find the CPU's magazines and the depot empty are checked. */
void* kmem_cache_alloc(struct kmem_cache* cache, int flags);
/* Any context but NMI. NULL is allowed. */
void kmem_cache_free(struct kmem_cache* cache, void* object);
/* As kmem_cache_alloc, for callers who use only the first `requested` bytes of the object. A trace
 * shows `requested` as the size. */
void* kmem_cache_alloc_sized(struct kmem_cache* cache, size_t requested, int flags);

/* Usable bytes of a live page-backed object: all of it, or the requested size of a checked one. */
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
  uint64_t allocations; /* ever */
  uint64_t frees;       /* ever */
  uint64_t live;        /* allocations - frees, exact when the cache is quiet */
  uint64_t total_bytes; /* of all slabs */
  uint64_t slabs;
  uint64_t objects_in_slabs; /* all objects that the slabs have, live or free */
  uint64_t objects_out;      /* of them, those handed out by the slabs: live ones and rounds of
                                magazines */
  uint64_t magazine_rounds;  /* free objects in magazines and depot */
  uint64_t magazine_size;    /* rounds that new ones hold; 0 if none are used */
  uint64_t depot_full, depot_empty;
  uint64_t hash_buckets, hash_items; /* bufctl hash; 0 without */
  uint64_t hash_bytes;               /* its memory, from the metadata source */
  uint64_t failures;                 /* allocations that returned NULL */
  uint64_t magazine_resizes;         /* how often magazines have grown */
  uint64_t depot_contention;         /* how often a CPU has waited for the depot's lock */
  uint64_t depot_surplus;            /* of depot_full, those that the last interval did not use */
  uint64_t depot_reaped;             /* full magazines that have been reaped */
  uint64_t checked;                  /* 1 while the cache is switched to checking */
  uint64_t checked_out; /* of objects_out, those that are checked when they are freed */
  uint64_t quarantined; /* of objects_in_slabs, damaged ones that are never handed out again */
  uint64_t reports;     /* of checks, ever */
};
/* Sums the CPUs' counters without stopping the CPUs. Any context. */
void kmem_cache_stats(struct kmem_cache* cache, struct kmem_cache_stats* stats);

/* The cache after `cache` in order of creation, with a reference; NULL for the first / after the
 * last. The reference of `cache` is given up. for (c = kmem_cache_next(NULL); c; c =
 * kmem_cache_next(c)) … */
struct kmem_cache* kmem_cache_next(struct kmem_cache* cache);
/* By name, with a reference; NULL if there is none. */
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
/* Sets and clears the same bits in the flags that kmem_cache_flags returns. */
void kmem_cache_master_flags(struct kmem_cache* cache, int set, int clear);
struct trace_table** kmem_cache_trace_slot(struct kmem_cache* cache);
/* The public first member of struct kmem_cache. */
struct kmem_cache_head {
  struct trace_table* trace; /* atomic; for the tracer */
};
/* The slot's content, in one instruction. */
static inline struct trace_table* kmem_cache_trace(const struct kmem_cache* cache) {
  return __atomic_load_n(&((const struct kmem_cache_head*)cache)->trace, __ATOMIC_ACQUIRE);
}

/* Tracing for callers inside the kernel. `options` as in a write to #mem/kmemtrace/NAME ("depth=16
 * min=100"), NULL for none. Returns 0 or a negated error number. The caller may sleep and holds no
 * spinlock. Implemented in src/trace/. */
int kmem_trace_start(struct kmem_cache* cache, const char* options);
int kmem_trace_stop(struct kmem_cache* cache);
int kmem_trace_reset(struct kmem_cache* cache);
int kmem_trace_print(struct kmem_cache* cache); /* the dump to the kernel log */
/* Declares that `object`, live memory from a cache, kmalloc or the page arena, is kept
 * intentionally: the leak test counts the object and does not report it. For structures that are
 * made on first use and kept. Does nothing if `object` is NULL or has no record. Any context but
 * NMI. Implemented in src/trace/. */
void kmem_not_leak(const void* object);

/* Fault injection: makes allocations fail, to test how their callers handle that. It shares the
 * tracer's flag test on the fast path, so it costs nothing while it is off. */
enum kmem_inject_site {
  KMEM_INJECT_CACHE, /* `source` is the cache, KMC_NOTRACE or not; for quantum caches the arena
                       asks instead */
  KMEM_INJECT_ARENA, /* `source` is the arena, asked by a direct caller */
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
/* Calls the function; returns 0 if there is none. For allocators; any context but NMI. */
int kmem_inject(enum kmem_inject_site site, const void* source, size_t size, int flags);
/* Not 0 if there is a function. A cheap test for frequent allocators. Any context. */
extern kmem_inject_function kmem_injector; /* atomic */
static inline int kmem_inject_wanted(void) {
  return __atomic_load_n(&kmem_injector, __ATOMIC_RELAXED) != 0;
}

/* Run-time checking. A checked cache reports on the log writes past the end of its objects, before
 * them or to free ones, double frees and frees to the wrong cache; the system goes on.
 * src/slab_check.c lists when each error is found. Callers serialise start and stop; both may
 * sleep. */
int kmem_cache_can_be_checked(
    const struct kmem_cache* cache); /* 0 for those that are KMC_NOTOUCH or KMC_NOTRACE */
void kmem_cache_check_start(struct kmem_cache* cache);
void kmem_cache_check_stop(struct kmem_cache* cache);
/* Checks all objects of checked slabs, allocated ones too. Reports newly damaged objects and
 * returns their number. Any context; interrupts are off for one object at a time. */
uint64_t kmem_cache_check_scan(struct kmem_cache* cache);

/* Makes the allocator's own caches. Called once, before anything else, with one CPU. */
void kmem_init(void);
/* Returns the objects in this CPU's magazines to the slabs, for all caches. Interrupts off; up to
 * 124 objects for each cache. */
void kmem_drain_cpu(void);
/* Reaping returns free objects of all caches to the slabs, and empty slabs to their sources. */
enum kmem_reap_extent {
  KMEM_REAP_SURPLUS, /* magazines that the last interval between two updates did not use */
  KMEM_REAP_DEPOTS,  /* all magazines of the depots */
  KMEM_REAP_ALL,     /* the CPUs' magazines, too */
};
/* Registers a function that is called before each reap. It gives up cached memory of another
 * holder: the memory that has not been used since the last reap of the surplus, or all. It takes no
 * sleeping lock, and allocates nothing. Once, at boot. */
void kmem_set_reaper(void (*reap)(enum kmem_reap_extent extent));
/* An allocation that may sleep and finds no memory calls it with each extent, in this order, until
 * it finds some. May sleep: interrupts on, no spinlock held. */
void kmem_reap_some(enum kmem_reap_extent extent);
/* Reaps everything. May sleep. */
void kmem_reap(void);
/* Ends an interval of some seconds. Magazines that the depots have not used in it become the
 * surplus, which is reaped first; caches whose CPUs have waited for the depot get larger magazines.
 * May sleep. */
void kmem_update(void);
/* Walks all slabs of the cache under its lock and compares them with its counts. Returns NULL or an
 * error message. For tests and debugging. */
const char* kmem_cache_verify(struct kmem_cache* cache);

#ifdef __cplusplus
}
#endif
