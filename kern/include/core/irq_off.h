/* The longest stretches in which a CPU had interrupts off, and who made them (Kconfig
 * IRQ_OFF_TRACE; without it nothing of this is left). C and C++.
 *
 * Wherever the interrupt flag changes irq_off_begin or irq_off_end is called: in the helpers of
 * interrupts.h and slab_os.h, and where a trap, a probe or a system call enters and leaves the
 * kernel. A stretch belongs to a CPU, not to a task: it begins where interrupts go off, goes
 * through switches of tasks, and ends where they come on. A halted CPU has them on. What is not
 * seen: the few instructions between an entry and the first call, NMIs and machine checks, and the
 * boot, up to where interrupts are first on.
 *
 * Time is that of the time stamp counter. Under `--icount --smp 1` a tick is one instruction and
 * nobody else takes the CPU, so a stretch is exact: the instructions between the two readings of
 * the counter, some ten of them our own. Otherwise it has in it what the host did meanwhile.
 *
 * Each CPU keeps the longest stretch of each pair of places, off and on, for the kIrqOffPlaces
 * longest pairs, with the task and the callers of the place where interrupts came on. It alone
 * touches its table, with interrupts off: there is no lock and nothing is allocated. A stretch that
 * is no longer than the shortest in a full table costs some fifteen instructions. */
#pragma once

#ifdef CONFIG_IRQ_OFF_TRACE
/* A guard that is not inlined would be the place, and not who uses it. */
#define IRQ_OFF_INLINE __attribute__((always_inline))

#ifdef __cplusplus
extern "C" {
#endif
/* Interrupts have just gone off on this CPU, and were on; the place is the caller's. */
void irq_off_begin(void);
/* They come on next; nothing if no stretch is under way. */
void irq_off_end(void);
/* The stretch under way is that of `function`, which is shown as the place where it began: for
 * who calls it for others. Interrupts off. */
void irq_off_blame(const void* function);
#ifdef __cplusplus
}
#endif
#else
#define IRQ_OFF_INLINE
static inline void irq_off_begin(void) {}
static inline void irq_off_end(void) {}
static inline void irq_off_blame(const void* function) {
  (void)function;
}
#endif

#if defined(__cplusplus) && defined(CONFIG_IRQ_OFF_TRACE)
#include <cstddef>
#include <cstdint>

inline constexpr size_t kIrqOffPlaces = 16, kIrqOffFrames = 12;

struct IrqOffStretch {
  uint64_t ticks;    // of the time stamp counter; 0: there is none
  uint64_t off, on;  // addresses behind the calls; where it was blamed on a function, its first one
  uint32_t cpu;
  uint32_t pid;  // of the task that turned interrupts on; 0 for a kernel task
  char task[32];
  uint32_t depth;
  uint64_t frames[kIrqOffFrames];  // return addresses, from the caller of who turned them on
};

// The table of each CPU that is online to stretches[number of the CPU * kIrqOffPlaces…], in no
// order. `stretches` has room for cpu_count() tables and is zero. Interrupts on, no lock held.
// Bound: a copy of 3 KB on each CPU.
void irq_off_read(IrqOffStretch* stretches);
// Forgets all of all CPUs. Interrupts on, no lock held.
void irq_off_reset();
#endif
