/* All that slab.c wants of the world around it. C and C++.
 *
 * The kernel's implementation is kern/src/slab_os.cc and inline below; the host tests bring their
 * own (tests/host/cpus/slab_os_host.h), in which a signal plays the interrupt.
 */
#pragma once

#ifdef __cplusplus
#include <cstddef>
#include <cstdint>
extern "C" {
#else
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#endif

#define SLAB_OS_PAGE_SIZE 4096

struct arena;

/* Each call of the allocator is checked for what no caller may ask: see slab.h. */
#ifdef CONFIG_SLAB_CHECK_CALLS
#define SLAB_OS_CHECK_CALLS 1
#else
#define SLAB_OS_CHECK_CALLS 0
#endif

/* Caches and arenas look whether something is traced, checked or made to fail. Without that nothing
 * can be: all of them are KMC_NOTRACE. */
#ifdef CONFIG_SLAB_NO_FLAG_TESTS
#define SLAB_OS_FLAG_TESTS 0
#else
#define SLAB_OS_FLAG_TESTS 1
#endif

#ifdef STELE_HOST
#include "slab_os_host.h"
#else
#include "core/irq_off.h"

#define SLAB_OS_MAX_CPUS CONFIG_MAX_CPUS

/* A lock that is taken with interrupts off already, by a cleanup guard in slab.c. A Spinlock
 * (spinlock.h) lies in it. */
struct slab_os_lock {
  uint32_t words[2];
};

/* Interrupts off on this CPU; returns what slab_os_irq_restore wants back. */
static inline IRQ_OFF_INLINE uint64_t slab_os_irq_save(void) {
  uint64_t flags;
  __asm__ volatile("pushfq; popq %0; cli" : "=r"(flags)::"memory");
  if (flags & (1 << 9)) irq_off_begin();
  return flags;
}
static inline IRQ_OFF_INLINE void slab_os_irq_restore(uint64_t flags) {
#ifdef CONFIG_IRQ_OFF_TRACE
  if (__builtin_expect((flags & (1 << 9)) != 0, 1)) { /* `sti` stays where it is without the call */
    irq_off_end();
    __asm__ volatile("sti" ::: "memory");
  }
#else
  if (__builtin_expect((flags & (1 << 9)) != 0, 1)) __asm__ volatile("sti" ::: "memory");
#endif
}
/* Adds `change` to a counter that one CPU at a time may write: its own, interrupts off, or the
 * holder of its lock. Others may read it meanwhile with __atomic_load_n, and see with it what came
 * before. One instruction, no locked bus. */
static inline void slab_os_count(uint64_t* counter, int64_t change) {
  __asm__("addq %1, %0" : "+m"(*counter) : "er"(change));
}
/* This CPU's number, 0..SLAB_OS_MAX_CPUS-1. Interrupts off. */
static inline size_t slab_os_cpu(void) {
  size_t id; /* as wide as an index, which is what it becomes */
  __asm__ volatile("movl %%gs:32, %k0" : "=r"(id));
  return id;
}
#endif

enum slab_os_rank { SLAB_OS_RANK_LIST, SLAB_OS_RANK_DEPOT, SLAB_OS_RANK_CACHE };
void slab_os_lock_init(struct slab_os_lock* lock, enum slab_os_rank rank);
void slab_os_lock_acquire(struct slab_os_lock* lock);
/* Takes the lock if it is free; false if it is not. */
bool slab_os_lock_try(struct slab_os_lock* lock);
void slab_os_lock_release(struct slab_os_lock* lock);

/* Whether the caller may sleep: interrupts are on, no lock is held, and the CPU handles no
 * interrupt and may be taken away. True before there are tasks. */
bool slab_os_may_sleep(void);

/* CPU numbers are below it, of CPUs that come online later too. The same at every call. */
unsigned slab_os_cpu_count(void);
/* Calls function(argument) on every online CPU with interrupts off; returns when all have returned.
 * Interrupts on, no lock held. */
void slab_os_on_each_cpu(void (*function)(void*), void* argument);

/* Where slabs come from unless a cache names its source, and where those of the allocator's own
 * caches come from: the second never allocates from a cache. */
struct arena* slab_os_page_source(void);
struct arena* slab_os_metadata_source(void);

/* `size` bytes (a multiple of the source's quantum), aligned to that quantum, from the source
 * arena; NULL when there is none. `flags` are KM_*. */
void* slab_os_pages_alloc(struct arena* source, size_t size, int flags);
void slab_os_pages_free(struct arena* source, void* pages, size_t size);
/* Notes for a page-backed slab that each of its pages belongs to `slab`; NULL takes the
 * note away. */
void slab_os_pages_set_slab(void* pages, size_t size, void* slab);
/* The note of the page that holds `object`; NULL if it has none. */
void* slab_os_page_slab(const void* object);

/* Whether a cache that is made under this name is to be checked from the beginning. */
bool slab_os_check_new_cache(const char* name);

/* Where, when and by whom something was done. All zero: never. */
enum { SLAB_OS_PLACE_FRAMES = 16, SLAB_OS_PLACE_NAME = 16 };
struct slab_os_place {
  uint64_t time; /* milliseconds since boot */
  uint32_t pid;  /* 0 for who has none */
  uint16_t cpu;
  uint8_t interrupt; /* not 0: `name` is that of an interrupt */
  uint8_t depth;     /* frames */
  char name[SLAB_OS_PLACE_NAME];
  uint32_t frames[SLAB_OS_PLACE_FRAMES]; /* return addresses, as offsets from the kernel's base */
};
/* Here and now. The stack begins with the caller of the function whose frame is given, allocator
 * functions left out. */
void slab_os_note_place(struct slab_os_place* place, const void* frame);
/* Lines to the log: `what`, by whom and when, and the stack with its symbols; nothing for a place
 * that is all zero. Each line begins with `prefix`. */
void slab_os_log_place(const char* prefix, const char* what, const struct slab_os_place* place);

/* Something else that can be traced has the name; the lock of the list of caches is held. */
bool slab_os_name_taken(const char* name);

/* One line to the log. */
void slab_os_log(const char* pattern, ...) __attribute__((format(printf, 1, 2), cold));
void slab_os_panic(const char* pattern, ...) __attribute__((format(printf, 1, 2), noreturn, cold));

#ifdef __cplusplus
}
#endif
