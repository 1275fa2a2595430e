// After an external NMI every CPU prints its state on the console. If every CPU has answered, one
// of them prints the largest users of memory. Then the system continues, if it can. The NMI comes
// from the emulator (the monitor's command `nmi`), or from scripts/guest when its time limit has
// passed. An NMI is delivered even while interrupts are off and locks are held. So the report shows
// every hang, except that of a CPU in an NMI handler.
//
// The first CPU that gets an NMI leads. It sends NMIs to the others, because the external NMI may
// have reached only one CPU. It prints nothing before the others are in their handlers: a CPU that
// writes to the log would otherwise mix its text into the report. The CPUs print one after the
// other. Each CPU stays in its handler until the leader is done. So nothing changes while the
// leader calls the reports that are registered with panic.h, and the reports can read all data
// without locks. If the external NMI reached all CPUs, each other CPU gets a second NMI after the
// report and ignores it.
//
// An NMI may interrupt any code. So the handler allocates nothing, causes no fault and waits for no
// lock: in an NMI uart.cc writes without waiting. But any function that the handler calls may have
// a probe's breakpoint at its return. The handler of a breakpoint must not return with iretq,
// because iretq would unblock NMIs while the NMI stack is in use. So entry.S returns from a
// breakpoint without iretq while an NMI is handled.
#include "core/nmi.h"

#include <atomic>
#include <cstdint>
#include <utility>

#include "arch/x86_64/io.h"
#include "arch/x86_64/smp.h"
#include "arch/x86_64/time.h"
#include "arch/x86_64/trap.h"
#include "core/console_print.h"
#include "core/cpu.h"
#include "core/panic.h"

namespace {

constexpr CpuId kNobody{UINT32_MAX};
constexpr Nanoseconds kPatience{3'000'000'000};  // time for the next CPU to print its state
constexpr Nanoseconds kArrival{1'000'000'000};   // time for all CPUs to enter their handlers
constexpr Nanoseconds kLate{1'000'000'000};      // NMIs within this time after a report are ignored

constinit std::atomic<CpuId> leader{kNobody};
constinit std::atomic<uint64_t> arrived{0};  // one bit for each CPU that is in its handler
constinit std::atomic<uint64_t> awaited{0};  // one bit for each CPU still to print its state
constinit std::atomic<bool> printing{false};
constinit Backtrace backtrace = {};  // used by the CPU that is printing
constinit std::atomic<uint64_t> late_until{0};

uint64_t bit(CpuId id) {
  return uint64_t{1} << number_of(id);
}

void relax() {
  panic_give_way();
  cpu_relax();
}

void show_this_cpu(const TrapFrame& frame) {
  while (printing.exchange(true, std::memory_order_acquire)) relax();
  console_print_cpu(backtrace, &frame, 0);
  printing.store(false, std::memory_order_release);
  awaited.fetch_and(~bit(this_cpu().id), std::memory_order_release);
}

void follow(const TrapFrame& frame) {
  const uint64_t me = bit(this_cpu().id);
  while (leader.load(std::memory_order_acquire) != kNobody) {
    arrived.fetch_or(me, std::memory_order_release);  // in each round: the leader may clear it late
    if (awaited.load(std::memory_order_acquire) & me) show_this_cpu(frame);
    relax();
  }
}

// Sends NMIs to the other CPUs, and waits until `all` are in their handlers, or kArrival is over.
void gather(uint64_t all) {
  arrived.store(bit(this_cpu().id), std::memory_order_release);
  stop_other_cpus();
  const Nanoseconds end = monotonic_now() + kArrival;
  while ((all & ~arrived.load(std::memory_order_acquire)) != 0 && monotonic_now() < end) relax();
}

void lead(const TrapFrame& frame) {
  uint64_t all = 0;
  for (const CpuId id : all_cpus()) {
    if (cpu(id).online) all |= bit(id);
  }
  gather(all);
  console_print("NMI: what each CPU does");
  awaited.store(all, std::memory_order_release);
  show_this_cpu(frame);
  // Each CPU gets the full time kPatience, since the CPUs print one after the other.
  uint64_t left = all;
  for (Nanoseconds end = monotonic_now() + kPatience; left != 0;) {
    const uint64_t now_left = awaited.load(std::memory_order_acquire);
    const Nanoseconds now = monotonic_now();
    if (std::exchange(left, now_left) != now_left) end = now + kPatience;
    if (now >= end) break;
    relax();
  }
  const uint64_t silent = awaited.exchange(0, std::memory_order_acquire);
  for (const CpuId id : all_cpus()) {
    if (silent & bit(id)) console_print("  CPU %u does not answer", number_of(id));
  }
  if (silent == 0) panic_call_reports();
  console_print("NMI: end");
}

}  // namespace

void nmi_report(const TrapFrame& frame) {
  CpuId nobody = kNobody;
  if (!leader.compare_exchange_strong(nobody, this_cpu().id, std::memory_order_acquire))
    return follow(frame);
  if (monotonic_now().value >= late_until.load(std::memory_order_relaxed)) {
    lead(frame);
    late_until.store((monotonic_now() + kLate).value, std::memory_order_relaxed);
  }
  leader.store(kNobody, std::memory_order_release);
}
