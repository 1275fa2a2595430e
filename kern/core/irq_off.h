/* Records the longest stretches in which a CPU had interrupts off, and their callers (Kconfig
 * IRQ_OFF_TRACE; without this option the calls compile to nothing). C and C++.
 *
 * irq_off_begin or irq_off_end is called at each change of the interrupt flag: in the helpers of
 * interrupts.h and slab_os.h, and where a trap, a probe or a system call enters and leaves the
 * kernel. A stretch belongs to a CPU, not to a task: it begins where interrupts go off, continues
 * through task switches, and ends where interrupts come on. A halted CPU has interrupts on. Three
 * things are not recorded: the few instructions between an entry and the first call, NMIs and
 * machine checks, and the boot until interrupts are first on.
 *
 * The unit of time is the tick of the time stamp counter. Under `--icount --smp 1` a tick is one
 * instruction and no other CPU runs. Then a stretch is the exact number of instructions between the
 * two readings of the counter; some ten of these instructions are the recording itself. Otherwise a
 * stretch includes activity of the host.
 *
 * A stretch has two places: the code where interrupts went off, and the code where they came on.
 * Each CPU has a table of kIrqOffPlaces stretches. A pair of places has at most one entry, its
 * longest stretch; a full table keeps the longest entries. An entry also has the task and the
 * callers of the place where interrupts came on. Only the CPU itself touches its table, with
 * interrupts off: there is no lock and nothing is allocated. A stretch that is no longer than the
 * shortest entry of a full table costs some fifteen instructions. */
#pragma once

#ifdef CONFIG_IRQ_OFF_TRACE
/* For constructors and destructors of guards such as InterruptsOff. They are inlined, so that the
 * recorded place is in the function that uses the guard. */
#define IRQ_OFF_INLINE __attribute__((always_inline))

#ifdef __cplusplus
extern "C" {
#endif
/* Begins a stretch: interrupts were on and have just gone off on this CPU. The return address of
 * this call is recorded as the place where interrupts went off. */
void irq_off_begin(void);
/* Ends the stretch: interrupts come on next. Does nothing if no stretch is under way. */
void irq_off_end(void);
/* Records `function` as the place where the present stretch began. Code that calls handlers of
 * other code, such as interrupt handlers, uses this to show the handler as the cause. Interrupts
 * off. */
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

#include "lib/units.h"

inline constexpr size_t kIrqOffPlaces = 16, kIrqOffFrames = 12;

struct IrqOffStretch {
  uint64_t ticks;    // ticks of the time stamp counter; 0: no stretch
  uint64_t off, on;  // return addresses; after irq_off_blame() `off` is the function's address
  CpuId cpu;
  uint32_t pid;  // process of the task that turned interrupts on; 0 for a kernel task
  char task[32];
  uint32_t depth;
  uint64_t frames[kIrqOffFrames];  // return addresses of the callers of `on`, innermost first
};

// Copies the table of each online CPU to stretches[CPU * kIrqOffPlaces…], unsorted. `stretches` has
// room for cpu_count() tables, and the caller has cleared it. Interrupts on, no lock held. Each CPU
// copies 3 KB with interrupts off.
void irq_off_read(IrqOffStretch* stretches);
// Clears the tables of all CPUs. Interrupts on, no lock held.
void irq_off_reset();
#endif
