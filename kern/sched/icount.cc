// Makes runs repeatable under an emulator that counts instructions. The option `icount` on the
// kernel command line enables this code (scripts/guest adds the option).
//
// Under QEMU -icount one thread runs the CPUs in turn, and time is the number of instructions. The
// kernel has to ensure two things:
//
// - At any time at least one CPU is not halted. When all CPUs halt, another of QEMU's threads
//   advances the clock and runs timers, while the thread of the CPUs may still be visiting the
//   halted CPUs; the host then decides which CPU runs next. So the last CPU that would halt
//   executes nops instead. Invariant: `halted` is less than the number of CPUs. A CPU counts as
//   halted from before its `hlt` until it has handled the interrupt that ended the `hlt`. The idle
//   task is not preempted in between, so a working CPU is never counted.
// - CPUs yield. QEMU 7.2 lets a CPU run until the next timer of any CPU is due, and gives the next
//   CPU no instructions until that timer has been handled; so of two busy CPUs one would starve.
//   The instruction `pause` lets QEMU go on to the next CPU. Each CPU executes a `pause` in its
//   tick. With N CPUs, each CPU omits the `pause` in every Nth tick and so gets a full slice.
#include <atomic>

#include "arch/x86_64/interrupts.h"
#include "arch/x86_64/io.h"
#include "core/boot.h"
#include "core/cpu.h"
#include "sched/sched_impl.h"

namespace {

// The number of nops in place of a halt, with interrupts on. They cost the emulator little.
constexpr unsigned kNops = 256;

constinit bool counted = false;
constinit std::atomic<unsigned> halted{0};
constinit unsigned ticks[kMaxCpus] = {};

// No wake-up is lost: `sti` takes effect after the next instruction, so an interrupt that arrives
// after the last check for work ends the `hlt`.
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
  const unsigned me = number_of(cpu_id()), count = cpu_count();
  if (ticks[me]++ % count != me) cpu_relax();
}
