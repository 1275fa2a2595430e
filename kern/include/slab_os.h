/* Everything that the slab allocator (src/slab*.c) needs from its environment. C and C++.
 *
 * The kernel implements these functions in kern/src/slab_os.cc and inline below. The host tests
 * have their own implementation (tests/host/cpus/slab_os_host.h); there, signals act as interrupts.
 */
#pragma once

#ifdef __cplusplus
#include <cstddef>
#include <cstdint>
#else
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#endif

#ifndef STELE_HOST
#include "core/irq_off.h"
#endif
#include "lib/thread_annotations.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SLAB_OS_PAGE_SIZE 4096

struct arena;
struct kmem_slab;

/* Checks each call of the allocator for invalid arguments: see slab.h. */
#ifdef CONFIG_SLAB_CHECK_CALLS
#define SLAB_OS_CHECK_CALLS 1
#else
#define SLAB_OS_CHECK_CALLS 0
#endif

/* Caches and arenas test flags for tracing, checking and fault injection. CONFIG_SLAB_NO_FLAG_TESTS
 * removes these tests: there is then no tracing, no checking and no fault injection, and all caches
 * are KMC_NOTRACE. */
#ifdef CONFIG_SLAB_NO_FLAG_TESTS
#define SLAB_OS_FLAG_TESTS 0
#else
#define SLAB_OS_FLAG_TESTS 1
#endif

#ifdef STELE_HOST
#include "slab_os_host.h"
#else
#define SLAB_OS_MAX_CPUS CONFIG_MAX_CPUS

/* Storage for a Spinlock (spinlock.h). LOCK_GUARD (slab_impl.h) turns interrupts off before it
 * takes the lock. */
struct CAPABILITY("spinlock") slab_os_lock {
  uint32_t words[2];
};

/* Turns interrupts off on this CPU; returns the flags for slab_os_irq_restore. */
static inline IRQ_OFF_INLINE uint64_t slab_os_irq_save(void) {
  uint64_t flags;
  __asm__ volatile("pushfq; popq %0; cli" : "=r"(flags)::"memory");
  if (flags & (1 << 9)) irq_off_begin();
  return flags;
}
static inline IRQ_OFF_INLINE void slab_os_irq_restore(uint64_t flags) {
#ifdef CONFIG_IRQ_OFF_TRACE
  if (__builtin_expect((flags & (1 << 9)) != 0, 1)) { /* likely, as in the #else branch */
    irq_off_end();
    __asm__ volatile("sti" ::: "memory");
  }
#else
  if (__builtin_expect((flags & (1 << 9)) != 0, 1)) __asm__ volatile("sti" ::: "memory");
#endif
}
/* Adds `change` to a counter. The counter has one writer at a time: the CPU that owns it, which has
 * interrupts off, or the holder of the lock that guards it. Other CPUs may read the counter at the
 * same time with __atomic_load_n(…, __ATOMIC_ACQUIRE); they then see everything that the writer did
 * before the change. Compiles to one instruction without a lock prefix. */
static inline void slab_os_count(uint64_t* counter, int64_t change) {
  __asm__("addq %1, %0" : "+m"(*counter) : "er"(change));
}
/* Returns this CPU's number, 0..SLAB_OS_MAX_CPUS-1. The caller has interrupts off. */
static inline size_t slab_os_cpu(void) {
  size_t id; /* as wide as an array index, so the compiler need not extend it */
  __asm__ volatile("movl %%gs:32, %k0" : "=r"(id));
  return id;
}
#endif

enum slab_os_rank { SLAB_OS_RANK_LIST, SLAB_OS_RANK_DEPOT, SLAB_OS_RANK_CACHE };
void slab_os_lock_init(struct slab_os_lock* lock, enum slab_os_rank rank);
void slab_os_lock_acquire(struct slab_os_lock* lock) ACQUIRE(lock);
/* Takes the lock if it is free; otherwise returns false. */
bool slab_os_lock_try(struct slab_os_lock* lock) TRY_ACQUIRE(true, lock);
void slab_os_lock_release(struct slab_os_lock* lock) RELEASE(lock);
/* Tells the thread-safety analysis to accept accesses without the lock. Called where no other code
 * can reach the guarded data, or no other CPU runs. */
static inline void slab_os_lock_not_needed(const struct slab_os_lock* lock)
    ASSERT_CAPABILITY(lock) {
  (void)lock;
}

/* True if the caller may sleep: it holds no lock, does not run in an interrupt handler, has
 * interrupts on, and can be preempted. The last two conditions do not apply before there are tasks,
 * nor in an idle task, which runs the start-up code of its CPU. */
bool slab_os_may_sleep(void);

/* Returns a constant that is greater than the number of every CPU, including CPUs that come online
 * later. */
unsigned slab_os_cpu_count(void);
/* Calls function(argument) on every online CPU, with interrupts off on that CPU. Returns when all
 * calls have returned. The caller has interrupts on and holds no lock. */
void slab_os_on_each_cpu(void (*function)(void*), void* argument);

/* slab_os_page_arena() returns the arena from which caches get slabs by default.
 * slab_os_metadata_arena() returns the arena for the slabs of the allocator's own caches; this
 * arena never allocates from a cache. */
struct arena* slab_os_page_arena(void);
struct arena* slab_os_metadata_arena(void);

/* Allocates `size` bytes, a multiple of the quantum of the arena `arena`, aligned to that quantum.
 * NULL when out of memory. `flags` are KM_*. */
void* slab_os_pages_alloc(struct arena* arena, size_t size, int flags);
void slab_os_pages_free(struct arena* arena, void* pages, size_t size);
/* Returns the alignment of what slab_os_pages_alloc returns: the quantum of the arena. */
size_t slab_os_pages_align(const struct arena* arena);
/* Stores `slab` in the descriptor of each page in the `size` bytes at `pages`; NULL clears the
 * descriptors. Called only for slabs that are memory (caches without KMC_NOTOUCH). */
void slab_os_pages_set_slab(void* pages, size_t size, struct kmem_slab* slab);
/* Returns the slab stored in the descriptor of the page that holds `object`; NULL if there is
 * none. */
struct kmem_slab* slab_os_page_slab(const void* object);

/* True if a new cache with this name is to be checked from its creation on. */
bool slab_os_check_new_cache(const char* name);
/* True if a report of such a check panics. Any context. */
bool slab_os_check_panics(void);

/* Place, time and task of an operation. All zero: the operation has not happened. */
enum { SLAB_OS_PLACE_FRAMES = 16, SLAB_OS_PLACE_NAME = 16 };
struct slab_os_place {
  uint64_t time; /* milliseconds since boot */
  uint32_t pid;  /* 0: not a process */
  uint16_t cpu;
  uint8_t interrupt; /* 0: `name` is the name of a task; otherwise of an interrupt */
  uint8_t depth;     /* number of frames */
  char name[SLAB_OS_PLACE_NAME];
  uint32_t frames[SLAB_OS_PLACE_FRAMES]; /* return addresses, as offsets from the kernel's base */
};
/* Fills in the current place, time and task. The recorded stack begins with the caller of the
 * function that `frame` belongs to. If this caller is an allocator function too, the stack begins
 * with the allocator's caller. */
void slab_os_note_place(struct slab_os_place* place, const void* frame);
/* Logs `what`, the task and time, and the stack with symbols; logs nothing for a place that is all
 * zero. Each line begins with `prefix`. */
void slab_os_log_place(const char* prefix, const char* what, const struct slab_os_place* place);

/* True if an arena or a class of references (RefClass in core/ref.h) has the name. The caller holds
 * the lock of the list of caches. */
bool slab_os_name_taken(const char* name);

/* Writes one line to the log. */
void slab_os_log(const char* pattern, ...) __attribute__((format(printf, 1, 2), cold));
void slab_os_panic(const char* pattern, ...) __attribute__((format(printf, 1, 2), noreturn, cold));

#ifdef __cplusplus
}
#endif
