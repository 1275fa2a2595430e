/* Object caches, after Bonwick, "The Slab Allocator" (USENIX 1994), and Bonwick & Adams, "Magazines
 * and Vmem" (USENIX 2001). For C and C++. The theory is in src/slab.c. */
#pragma once

#include "slab_os.h"

enum { KMEM_CACHE_NAME_MAX = 32 };

#ifdef __cplusplus
extern "C" {
#endif

struct kmem_cache;
struct arena;
struct trace_table;

/* Flags of a cache. kmem_cache_create() gets those that are not marked "state". The others change
 * while the cache exists. Each CPU has a copy of the flags in one byte, without KMC_NOPOINTERS. */
enum {
  KMC_NOTOUCH = 0x1, /* never write to free objects, and keep bufctls outside of them; for objects
                        that are not memory of the direct map */
  KMC_NOTRACE = 0x2, /* cannot be traced: caches that the tracer and the allocator need */
  KMC_NOMAGAZINE = 0x4,   /* allocations come directly from slabs */
  KMC_QCACHE = 0x8,       /* quantum cache of an arena */
  KMC_TRACED = 0x10,      /* record allocations (state; the tracer sets it) */
  KMC_EVER_TRACED = 0x20, /* drop records on free (state; the tracer sets it) */
  KMC_INJECT = 0x40, /* ask whether an allocation shall fail (state; kmem_inject_begin sets it) */
  KMC_CHECKED =
      0x80, /* a freed object may lie in a checked slab (state; kmem_cache_check_start sets it) */
  /* The objects hold no pointers, but bytes of users. The search for unreachable objects skips
   * them (kmem_cache_set_payload). */
  KMC_NOPOINTERS = 0x100,
};

/* Flags of an allocation. */
enum {
  KM_ATOMIC = 0x0, /* any context but NMI: never sleeps, never reaps */
  KM_SLEEP = 0x1,  /* may sleep while memory is reaped; can still fail */
  KM_ZERO = 0x2,   /* zeroes the memory; only for caches without constructor */
  /* For arena_create only. */
  KM_NOTRACE = 0x100, /* the arena cannot be traced */
};

typedef int (*kmem_constructor)(void* object, void* private_data,
                                int flags); /* returns 0, or not 0 when out of memory */
typedef void (*kmem_destructor)(void* object, void* private_data);

/* Not 0 if a cache or arena may have the name. The name becomes a file name and a column of a
 * table: printable ASCII without blank and slash, and not "." or "..". */
int kmem_is_name(const char* name);

/* Makes a cache of objects of `size` bytes (1..INT32_MAX). `align` is the alignment, a power of
 * two; 0: the default. If the cache touches its objects (no KMC_NOTOUCH), `align` is at most a
 * page, otherwise at most the quantum of `arena`. The cache's slabs come from `arena` (NULL: the
 * page arena). `name` is copied; a second cache of the same name is called NAME.2, and so on. NULL
 * when out of memory. An invalid size, alignment or name panics. May sleep.
 *
 * For a cache without KMC_NOTRACE there are two more rules: `arena` must hand out canonical 48-bit
 * addresses, and the caller must hold no sleeping lock of rank kTraceControl or below. */
struct kmem_cache* kmem_cache_create(const char* name, size_t size, size_t align, int flags,
                                     struct arena* arena, kmem_constructor constructor,
                                     kmem_destructor destructor, void* private_data);
/* Makes a quantum cache of `arena`: objects of `size` bytes in slabs of `slab_size`
 * bytes. The cache never touches its objects, and is not traced. NULL when out of memory; an
 * invalid size panics. May sleep. */
struct kmem_cache* kmem_qcache_create(const char* name, size_t size, size_t slab_size,
                                      struct arena* arena);
/* For CONFIG_SLAB_CHECK_CALLS: an arena calls this function for each object of its quantum caches
 * that a caller gets (`out` is 1) or is about to free (`out` is 0). Returns NULL if this is valid,
 * otherwise an error message. */
const char* kmem_qcache_note(struct kmem_cache* cache, const void* object, int out);
/* Destroys a cache. If objects are live, logs their number and keeps the cache as a zombie until
 * all of these objects are freed. May sleep. */
void kmem_cache_destroy(struct kmem_cache* cache);

/* Allocates an object; NULL when out of memory. With KM_ATOMIC: any context but NMI.
 *
 * A call panics if it is invalid: KM_SLEEP although the caller may not sleep, KM_ZERO although the
 * cache has a constructor, or a `requested` size above the object size. With
 * CONFIG_SLAB_CHECK_CALLS each call is checked. Otherwise a call is checked only if the CPU's
 * magazines and the depot have no object. */
void* kmem_cache_alloc(struct kmem_cache* cache, int flags);
/* Frees an object; `object` may be NULL. Any context but NMI. */
void kmem_cache_free(struct kmem_cache* cache, void* object);
/* Does what kmem_cache_alloc does, for callers that use only the first `requested` bytes of the
 * object. A trace shows `requested` as the size. */
void* kmem_cache_alloc_sized(struct kmem_cache* cache, size_t requested, int flags);

/* Returns the number of usable bytes of a live object: the object size, or the requested size if
 * the object lies in a checked slab. The cache must not be KMC_NOTOUCH. */
size_t kmem_cache_usable_size(const struct kmem_cache* cache, const void* object);
/* Logs the object that contains the address, and its cache. For an object in a checked slab, also
 * logs the stacks that allocated and freed the object. For reports: any context, takes no lock. */
void kmem_log_object(const void* address);
/* Returns the cache of an object whose cache is not KMC_NOTOUCH; NULL if the object's page belongs
 * to no slab. */
struct kmem_cache* kmem_cache_of(const void* object);

const char* kmem_cache_name(const struct kmem_cache* cache);
size_t kmem_cache_object_size(const struct kmem_cache* cache);
int kmem_cache_flags(const struct kmem_cache* cache);
/* Says that the last `bytes` bytes of each object hold no pointers, but bytes of users, which may
 * have any value. The search for unreachable objects skips them. 0 in a new cache, or the whole
 * object with KMC_NOPOINTERS. Called before the first allocation. */
void kmem_cache_set_payload(struct kmem_cache* cache, size_t bytes);
size_t kmem_cache_payload(const struct kmem_cache* cache);
struct arena* kmem_cache_arena(const struct kmem_cache* cache);
/* Not 0 for a zombie: a cache that has been destroyed, and that is kept only because it has live
 * objects or because somebody holds a reference. */
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
  uint64_t magazine_rounds;          /* free objects in magazines and depot */
  uint64_t magazine_size;            /* objects that a new magazine holds; 0: no magazines */
  uint64_t depot_full, depot_empty;  /* magazines in the depot */
  uint64_t hash_buckets, hash_items; /* buckets and entries of the bufctl hash; 0: no hash */
  uint64_t hash_bytes;               /* bytes of the hash, from slab_os_metadata_arena() */
  uint64_t failures;                 /* allocations that returned NULL */
  uint64_t magazine_resizes;         /* how often magazines have grown */
  uint64_t depot_contention;         /* how often a CPU has waited for the depot's lock */
  uint64_t depot_surplus; /* magazines in depot_full that were not used in the last interval
                             (kmem_update) */
  uint64_t depot_reaped;  /* full magazines that have been reaped */
  uint64_t checked;       /* 1 while the cache is checked */
  uint64_t checked_out;   /* those of objects_out that lie in checked slabs */
  uint64_t quarantined;   /* damaged objects in objects_in_slabs, never handed out again */
  uint64_t reports;       /* number of reports since the cache was made */
};
/* Sums the CPUs' counters without stopping the CPUs. Any context. */
void kmem_cache_stats(struct kmem_cache* cache, struct kmem_cache_stats* stats);

/* Returns the cache after `cache` in order of creation, or NULL after the last cache. If `cache` is
 * NULL, returns the first cache. Takes a reference to the returned cache, and releases the caller's
 * reference to `cache`. for (c = kmem_cache_next(NULL); c; c = kmem_cache_next(c)) … */
struct kmem_cache* kmem_cache_next(struct kmem_cache* cache);
/* Finds a cache by name, and takes a reference. NULL if there is none. */
struct kmem_cache* kmem_cache_find(const char* name);
/* A held reference keeps the cache's structure (as a zombie after kmem_cache_destroy), but not the
 * cache's objects. */
void kmem_cache_hold(struct kmem_cache* cache);
void kmem_cache_release(struct kmem_cache* cache);

/* For the tracer. */
/* Sets and clears bits (KMC_TRACED, KMC_EVER_TRACED) in this CPU's copy of the flags. Interrupts
 * off. */
void kmem_cache_cpu_flags(struct kmem_cache* cache, int set, int clear);
/* Sets bits in all CPUs' copies, including those of CPUs that have not started yet. The caller is
 * the only user of the cache. */
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

/* Tracing for callers inside the kernel. `options` has the form of a write to #mem/kmemtrace/NAME
 * ("depth=16 min=100"); NULL means no options. These functions return 0 or a negated error number.
 * The caller may sleep and holds no spinlock. Implemented in src/trace/. */
int kmem_trace_start(struct kmem_cache* cache, const char* options);
int kmem_trace_stop(struct kmem_cache* cache);
int kmem_trace_reset(struct kmem_cache* cache);
int kmem_trace_print(struct kmem_cache* cache); /* writes the dump to the kernel log */
/* Declares that `object` is kept intentionally: the leak test counts the object, but does not
 * report it as a leak. `object` is live memory from a cache, kmalloc or the page arena. For
 * structures that are made on first use and never freed. Does nothing if `object` is NULL or has no
 * record. Any context but NMI. Implemented in src/trace/. */
void kmem_not_leak(const void* object);

/* Fault injection: makes allocations fail, to test how their callers handle the failure. The fast
 * path tests the flag of fault injection together with the tracer's flag, so fault injection costs
 * nothing while it is off. */
enum kmem_inject_site {
  /* `source` is the cache, which may be KMC_NOTRACE. An allocation from a quantum cache counts as
   * KMEM_INJECT_ARENA. */
  KMEM_INJECT_CACHE,
  KMEM_INJECT_ARENA, /* a direct caller allocates from an arena: `source` is the arena */
  KMEM_INJECT_TRACE, /* a page for the tracer; `source` is NULL */
};
/* Decides about one allocation: 0 lets it succeed, any other value makes it fail. Called with
 * interrupts off, in any context. The caller may hold any lock whose rank is above a cache's lock,
 * so the function takes no lock and allocates nothing. */
typedef int (*kmem_inject_function)(enum kmem_inject_site site, const void* source, size_t size,
                                    int flags);
/* Starts fault injection: from now on every CPU calls `function` before each allocation. Returns 1.
 * If there is another function already, returns 0 and does nothing. An injected failure returns
 * NULL and is counted as a failure of its cache or arena; the tracer does not see it. May sleep. */
int kmem_inject_begin(kmem_inject_function function);
/* Ends fault injection. On return no CPU runs the function. May sleep. */
void kmem_inject_end(void);
/* Calls the function of kmem_inject_begin and returns its result; 0 if there is no function. For
 * allocators; any context but NMI. */
int kmem_inject(enum kmem_inject_site site, const void* source, size_t size, int flags);
/* Not 0 while fault injection is on. A cheap test for code that allocates often. Any context. */
extern kmem_inject_function kmem_injector; /* accessed with atomic builtins */
static inline int kmem_inject_wanted(void) {
  return __atomic_load_n(&kmem_injector, __ATOMIC_RELAXED) != 0;
}

/* Run-time checking. While a cache is checked, its new objects lie in checked slabs
 * (src/slab_check.c). The log gets a report of each of these errors: writes before or after an
 * object, writes to a free object, double frees, and frees to the wrong cache. The system then goes
 * on. src/slab_check.c lists when each error is found. kmem_cache_check_start and
 * kmem_cache_check_stop may sleep; callers serialise them. */
int kmem_cache_can_be_checked(
    const struct kmem_cache* cache); /* 0 if the cache is KMC_NOTOUCH or KMC_NOTRACE */
void kmem_cache_check_start(struct kmem_cache* cache);
void kmem_cache_check_stop(struct kmem_cache* cache);
/* Checks all objects in checked slabs, free and allocated ones. Reports newly damaged objects and
 * returns their number. Any context; interrupts are off for one object at a time. */
uint64_t kmem_cache_check_scan(struct kmem_cache* cache);

/* Makes the allocator's own caches. Called once, before all other functions of this file, while
 * only one CPU runs. */
void kmem_init(void);
/* Returns the objects in this CPU's magazines to the slabs, for all caches. Interrupts off. Bound:
 * 124 objects for each cache. */
void kmem_drain_cpu(void);
/* Reaping returns free objects of all caches to the slabs, and empty slabs to their arenas. */
enum kmem_reap_extent {
  KMEM_REAP_SURPLUS, /* the depots' magazines that no CPU needed in the last interval
                        (kmem_update) */
  KMEM_REAP_DEPOTS,  /* all magazines of the depots, and all empty slabs */
  KMEM_REAP_ALL,     /* also the CPUs' magazines */
};
/* Registers a function of another subsystem that caches data in memory (the page cache). The
 * function is called before each reap. For KMEM_REAP_SURPLUS it frees the cached data that was not
 * used since the last call; for other extents it frees all cached data that it can free. The
 * function takes no sleeping lock, and allocates nothing. kmem_set_reaper is called once, at
 * boot. */
void kmem_set_reaper(void (*reap)(enum kmem_reap_extent extent));
/* Reaps as much as `extent` says. If an allocation that may sleep finds no memory, it calls this
 * function with each extent, in the order of the enum, until there is memory. May sleep: interrupts
 * on, no spinlock held. */
void kmem_reap_some(enum kmem_reap_extent extent);
/* Reaps everything. May sleep. */
void kmem_reap(void);
/* Ends an interval, which lasts some seconds. Magazines that no CPU needed in the interval become
 * the surplus, which is reaped first. Caches whose CPUs have waited for the depot's lock get larger
 * magazines. May sleep. */
void kmem_update(void);
/* Walks all slabs of the cache under the cache's lock and compares the slabs with the cache's
 * counts. Returns NULL if they agree, otherwise an error message. For tests and debugging. */
const char* kmem_cache_verify(struct kmem_cache* cache);

#ifdef __cplusplus
}
#endif
