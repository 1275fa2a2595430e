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

/* Flags of a cache. All fit in a byte, which is what each CPU has of them. */
enum {
  KMC_NOTOUCH = 0x1,    /* never write to free objects: bufctls outside; for objects that are not
                           memory of the direct map */
  KMC_NOTRACE = 0x2,    /* cannot be traced: what the tracer and the allocator themselves live on */
  KMC_NOMAGAZINE = 0x4, /* straight from slabs */
  KMC_QCACHE = 0x8,     /* quantum cache of an arena */
  KMC_TRACED = 0x10,    /* record allocations (state; the tracer sets it) */
  KMC_EVER_TRACED = 0x20, /* look records up on free (state; the tracer sets it) */
  KMC_FAULTS = 0x40, /* ask whether an allocation shall fail (state; kmem_faults_begin sets it) */
  KMC_CHECKED =
      0x80, /* what is freed may lie in a checked slab (state; kmem_cache_check_start sets it) */
};

/* Flags of an allocation. */
enum {
  KM_ATOMIC = 0x0, /* any context but NMI: never sleeps, never reaps */
  KM_SLEEP = 0x1,  /* may sleep while memory is made free; can still fail */
  KM_ZERO = 0x2,   /* zeroed; only for caches without constructor */
  /* The policy of an arena, one at most (arena.h); to a cache they mean nothing. */
  KM_BESTFIT = 0x10, /* the smallest free segment that is large enough */
  KM_NEXTFIT = 0x20, /* the next one after the last allocation */
  /* Of arena_create alone. */
  KM_NOTRACE = 0x100, /* the arena cannot be traced */
};

typedef int (*kmem_constructor)(void* object, void* private_data,
                                int flags); /* 0, or non-zero: out of memory */
typedef void (*kmem_destructor)(void* object, void* private_data);

/* Whether a cache or arena may have the name: it becomes the name of a file and a column of a
 * table, so it is made of printable ASCII characters without blank and slash, and not "." or "..".
 */
int kmem_is_name(const char* name);

/* Makes a cache of objects of `size` bytes (1..UINT32_MAX-1), aligned to `align` (a power of two,
 * at most a page if the objects are touched; 0: natural), whose slabs come from `source` (NULL: the
 * page arena). `name` is copied; a second cache of one name is called NAME.2, and so on. NULL when
 * out of memory; a size, alignment or name that cannot be panics. What `source` hands out has the
 * form of an address, of 48 bits, unless the cache is KMC_NOTRACE. May sleep; unless the cache is
 * KMC_NOTRACE no sleeping lock of rank kTraceControl or below is held. */
struct kmem_cache* kmem_cache_create(const char* name, size_t size, size_t align, int flags,
                                     struct arena* source, kmem_constructor constructor,
                                     kmem_destructor destructor, void* private_data);
/* A quantum cache of the arena `source`: objects of `size` bytes in slabs of `slab_size`, neither
 * touched nor traced. As above. */
struct kmem_cache* kmem_qcache_create(const char* name, size_t size, size_t slab_size,
                                      struct arena* source);
/* With CONFIG_SLAB_CHECK_CALLS an arena says which objects of its quantum caches are with callers:
 * `out` is 1 for an object that one gets, 0 for one that is about to be freed. NULL, or what is
 * wrong with that. */
const char* kmem_qcache_note(struct kmem_cache* cache, const void* object, int out);
/* Ends a cache. With live objects it says so on the log, and the cache stays as a zombie until they
 * are gone. May sleep. */
void kmem_cache_destroy(struct kmem_cache* cache);

/* An object, or NULL when out of memory. Any context but NMI with KM_ATOMIC.
 *
 * What no caller may ask panics: KM_SLEEP where he may not sleep, KM_ZERO of a cache with a
 * constructor, more bytes than an object has. With CONFIG_SLAB_CHECK_CALLS each call is looked at,
 * otherwise those that find the CPU's magazines and the depot empty. */
void* kmem_cache_alloc(struct kmem_cache* cache, int flags);
/* Any context but NMI. NULL is allowed. */
void kmem_cache_free(struct kmem_cache* cache, void* object);
/* As kmem_cache_alloc, for callers who use less of the object: `requested` bytes are what a trace
 * shows as its size. */
void* kmem_cache_alloc_sized(struct kmem_cache* cache, size_t requested, int flags);

/* How much of a live page-backed object may be used: all, or what was asked for of a
 * checked one. */
size_t kmem_cache_usable_size(const struct kmem_cache* cache, const void* object);
/* Lines to the log: the object that an address lies in, its cache, and if that is checked who
 * allocated and freed it. For reports: any context, no lock. */
void kmem_log_object(const void* address);
/* The cache that a page-backed object belongs to; NULL if its page has none. */
struct kmem_cache* kmem_cache_of(const void* object);

const char* kmem_cache_name(const struct kmem_cache* cache);
size_t kmem_cache_object_size(const struct kmem_cache* cache);
int kmem_cache_flags(const struct kmem_cache* cache);
struct arena* kmem_cache_source(const struct kmem_cache* cache);
/* Not 0 for a zombie: destroyed, and kept only for its live objects or somebody's reference. */
int kmem_cache_is_zombie(const struct kmem_cache* cache);

struct kmem_cache_stats {
  size_t object_size;
  uint64_t allocations; /* ever */
  uint64_t frees;       /* ever */
  uint64_t live;        /* allocations - frees, exact when the cache is quiet */
  uint64_t total_bytes; /* of all slabs */
  uint64_t slabs;
  uint64_t objects_in_slabs; /* all objects that the slabs have, live or free */
  uint64_t objects_out;     /* of them, those that the slabs have given out: live ones and rounds of
                               magazines */
  uint64_t magazine_rounds; /* free objects in magazines and depot */
  uint64_t magazine_size;   /* rounds that new ones hold; 0 if none are used */
  uint64_t depot_full, depot_empty;
  uint64_t hash_buckets, hash_items; /* bufctl hash; 0 without */
  uint64_t hash_bytes;               /* its memory, from the metadata source */
  uint64_t failures;                 /* allocations that returned NULL */
  uint64_t magazine_resizes;         /* how often magazines have grown */
  uint64_t depot_contention;         /* how often a CPU has waited for another's use of the depot */
  uint64_t depot_surplus; /* of depot_full, those that the last interval had no use for */
  uint64_t depot_reaped;  /* full magazines that have been reaped */
  uint64_t checked;       /* 1 while the cache is switched to checking */
  uint64_t checked_out;   /* of objects_out, those that are checked when they are freed */
  uint64_t quarantined;   /* of objects_in_slabs, damaged ones that nobody gets any more */
  uint64_t reports;       /* of checks, ever */
};
/* Any context; sums what the CPUs count, without stopping them. */
void kmem_cache_stats(struct kmem_cache* cache, struct kmem_cache_stats* stats);

/* The cache after `cache` in order of creation, with a reference; NULL for the first / after the
 * last. The reference of `cache` is given up. for (c = kmem_cache_next(NULL); c; c =
 * kmem_cache_next(c)) … */
struct kmem_cache* kmem_cache_next(struct kmem_cache* cache);
/* By name, with a reference; NULL if there is none. */
struct kmem_cache* kmem_cache_find(const char* name);
/* A held reference keeps the structure (as a zombie after destroy), not its objects. */
void kmem_cache_hold(struct kmem_cache* cache);
void kmem_cache_release(struct kmem_cache* cache);

/* The tracer's hands on a cache. */
/* Sets and clears bits (KMC_TRACED, KMC_EVER_TRACED) in THIS CPU's copy of the flags. Interrupts
 * off. */
void kmem_cache_cpu_flags(struct kmem_cache* cache, int set, int clear);
/* Sets them in all CPUs' copies, of CPUs that are to be started too, while nobody but the caller
 * uses the cache. */
void kmem_cache_unused_flags(struct kmem_cache* cache, int set);
/* The same bits in the flags that kmem_cache_flags shows. */
void kmem_cache_master_flags(struct kmem_cache* cache, int set, int clear);
struct trace_table** kmem_cache_trace_slot(struct kmem_cache* cache);
/* What is in it, in one instruction: it lies at a fixed place (slab.c). */
enum { KMEM_CACHE_TRACE_OFFSET = 120 };
static inline struct trace_table* kmem_cache_trace(struct kmem_cache* cache) {
  return __atomic_load_n((struct trace_table**)((char*)cache + KMEM_CACHE_TRACE_OFFSET),
                         __ATOMIC_ACQUIRE);
}

/* Tracing for callers inside the kernel. `options` as in a write to #mem/kmemtrace/NAME ("depth=16
 * min=100"), NULL for none. 0, or a negated error number. The caller may sleep and holds no
 * spinlock. Implemented in src/trace/. */
int kmem_trace_start(struct kmem_cache* cache, const char* options);
int kmem_trace_stop(struct kmem_cache* cache);
int kmem_trace_reset(struct kmem_cache* cache);
int kmem_trace_print(struct kmem_cache* cache); /* the dump to the kernel log */
/* Declares that `object`, live memory from a cache, kmalloc or the page arena, is meant to stay
 * though nothing says so: the leak test counts it and does not accuse it. For structures that are
 * made when first wanted and kept. Does nothing if the object has no record, nor to NULL. Any
 * context but NMI. Implemented in src/trace/. */
void kmem_not_leak(const void* object);

/* Allocations that fail on purpose, for tests of what their callers do then: whoever does not ask
 * for it pays nothing, since the question is asked where the tracer's hook is. */
enum kmem_fault_site {
  KMEM_FAULT_CACHE, /* `source` is the cache: KMC_NOTRACE ones too, but no quantum cache, for which
                       its arena asks */
  KMEM_FAULT_ARENA, /* `source` is the arena, asked by a direct caller */
  KMEM_FAULT_TRACE, /* a page for the tracer; `source` is NULL */
};
/* Whether this allocation shall fail: 0 if not. Interrupts off, any context, any lock but those of
 * this file's order below a cache's: it takes none and allocates nothing. */
typedef int (*kmem_fault_function)(enum kmem_fault_site site, const void* source, size_t size,
                                   int flags);
/* From now on `function` is asked before each allocation, on every CPU. 0, with nothing done, if
 * there is another already. What it makes fail gives NULL, is counted as a failure of its cache or
 * arena, and is never seen by the tracer. May sleep. */
int kmem_faults_begin(kmem_fault_function function);
/* Nobody is asked any more; when it returns the function is not running on any CPU. May sleep. */
void kmem_faults_end(void);
/* Asks. 0 without a function. For those who have allocations to fail; any context but NMI. */
int kmem_fault(enum kmem_fault_site site, const void* source, size_t size, int flags);
/* Whether there is a function: one look, for those who allocate often. Any context. */
extern kmem_fault_function kmem_fault_asked; /* atomic */
static inline int kmem_faults_wanted(void) {
  return __atomic_load_n(&kmem_fault_asked, __ATOMIC_RELAXED) != 0;
}

/* Run-time checking. While a cache is checked a write past the end of its objects, before them or
 * to free ones, a double free and a free to the wrong cache are reported on the log, and the system
 * goes on. What is found when stands in src/slab_check.c. Callers of start and stop take turns;
 * both may sleep. */
int kmem_cache_can_be_checked(
    const struct kmem_cache* cache); /* 0 for those that are KMC_NOTOUCH or KMC_NOTRACE */
void kmem_cache_check_start(struct kmem_cache* cache);
void kmem_cache_check_stop(struct kmem_cache* cache);
/* Checks all objects from checked slabs, those that are out too; the number of them that were found
 * damaged, and reported, now. Any context; interrupts are off for one object at a time. */
uint64_t kmem_cache_check_scan(struct kmem_cache* cache);

/* Called once, before anything else, with one CPU: the allocator's own caches. */
void kmem_init(void);
/* What this CPU's magazines hold goes back to the slabs, for all caches. Interrupts off; up to 124
 * objects for each cache. */
void kmem_drain_cpu(void);
/* Free objects of all caches go back to the slabs, and empty slabs to where they came from. */
enum kmem_reap_extent {
  KMEM_REAP_SURPLUS, /* what the last interval between two updates had no use for */
  KMEM_REAP_DEPOTS,  /* all that the depots have */
  KMEM_REAP_ALL,     /* what CPUs have in their magazines, too */
};
/* `reap` is called before each reap: who keeps memory only because it may be wanted again gives up
 * what has not been used since the last reap of the surplus, or all. It takes no sleeping lock, and
 * allocates nothing. Once, at boot. */
void kmem_set_reaper(void (*reap)(enum kmem_reap_extent extent));
/* An allocation that may sleep and finds no memory does it, in this order until it finds some. May
 * sleep: interrupts on, no spinlock held. */
void kmem_reap_some(enum kmem_reap_extent extent);
/* All that idles. May sleep. */
void kmem_reap(void);
/* Ends an interval, of some seconds: what depots have not used in it becomes the surplus that is
 * reaped first, and caches whose CPUs have waited for the depot get larger magazines. May sleep. */
void kmem_update(void);
/* Walks all slabs of the cache and compares them with its counts, under its lock. NULL, or what is
 * wrong. For tests and debugging. */
const char* kmem_cache_verify(struct kmem_cache* cache);

#ifdef __cplusplus
}
#endif
