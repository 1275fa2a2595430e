// What it takes to run the same each time under an emulator that counts instructions. `icount` on
// the kernel command line (scripts/guest puts it there) turns it on.
//
// Under QEMU -icount one thread runs the CPUs in turn, and time is instructions. Two things are
// left to us:
//
// - Not all CPUs halt. When all are halted another of QEMU's threads moves the clock on and runs
// timers, while the first may
//   still be on its way round the halted CPUs: which CPU runs next then depends on the host. So the
//   last CPU that would halt executes something instead. Invariant: `halted` is less than the
//   number of CPUs, and counts each CPU from before its `hlt` to the end of the interrupt that
//   ended it; an idle task is not preempted in between, so that a CPU that works is not counted.
// - Turns. QEMU 7.2 lets a CPU run until the next timer of any CPU is due, and the CPU after it
// then has no instructions left
//   until that timer has been handled: of two CPUs that work one would never get on. `pause` passes
//   the turn on. Each CPU does that in its tick, but for one tick in as many as there are CPUs,
//   which is its own.
#include <atomic>

#include "arch/x86_64/interrupts.h"
#include "arch/x86_64/io.h"
#include "core/boot.h"
#include "core/cpu.h"
#include "sched/sched.h"

namespace {

// Executed instead of a halt, with interrupts on. Many, and nothing that is work for the emulator.
constexpr unsigned kNops = 256;

constinit bool counted = false;
constinit std::atomic<unsigned> halted{0};
constinit unsigned ticks[kMaxCpus] = {};

// An interrupt that comes between the look for work and the halt ends the halt: `sti` takes effect
// after the instruction that follows it.
void halt() {
  irq_off_end();
  asm volatile("sti; hlt" ::: "memory");
}

}  // namespace

void icount_init() {
  size_t length;
  counted = boot_option("icount", &length) != nullptr;
}

void idle_wait() {
  if (!counted) return halt();
  const PreemptOff preempt_off;
  if (halted.fetch_add(1) + 1 < cpu_count()) {
    halt();
    halted--;
  } else {
    halted--;
    irq_off_end();
    asm volatile("sti; .rept %c0; nop; .endr" ::"i"(kNops) : "memory");
  }
}

void icount_tick() {
  if (!counted) return;
  const unsigned me = cpu_id(), count = cpu_count();
  if (ticks[me]++ % count != me) cpu_relax();
}
