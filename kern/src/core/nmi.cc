// An NMI from outside (the monitor's command `nmi`, scripts/guest when its time is over) has every
// CPU show on the console what it does, and then those who hold most memory; then the system goes
// on, if it can. It comes through where interrupts are off and locks are held: whatever hangs,
// short of a CPU that is in an NMI already, is seen.
//
// The first CPU that gets one leads: it sends NMIs to the others, since a machine may have told it
// alone. Each shows itself when it has its turn, and stays in its handler until the leader is done,
// so that all stand still while the reports of panic.h read what they like. A CPU gets two NMIs
// when the machine has told all: the second is late, and does nothing.
//
// An NMI may have interrupted anything: no lock is waited for (uart.cc knows of NMIs), nothing is
// allocated, and nothing faults. A breakpoint, which any function may have where it returns, must
// not end with iretq, which would let the next NMI in on the same stack: entry.S returns from it
// another way.
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

constexpr uint32_t kNobody = UINT32_MAX;
constexpr Nanoseconds kPatience{3'000'000'000};  // for the next CPU to have shown itself
constexpr Nanoseconds kLate{1'000'000'000};      // what comes so soon after a report is late

constinit std::atomic<uint32_t> leader{kNobody};
constinit std::atomic<uint64_t> awaited{0};  // CPUs that have not shown themselves
constinit std::atomic<bool> printing{false};
constinit Backtrace backtrace = {};  // of the CPU that is printing
constinit std::atomic<uint64_t> late_until{0};

uint64_t bit(uint32_t id) {
  return uint64_t{1} << id;
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
    if (awaited.load(std::memory_order_acquire) & me) show_this_cpu(frame);
    relax();
  }
}

void lead(const TrapFrame& frame) {
  uint64_t all = 0;
  for (unsigned id = 0; id < cpu_count(); id++) {
    if (cpu(id).online) all |= bit(id);
  }
  console_print("NMI: what each CPU does");
  awaited.store(all, std::memory_order_release);
  stop_other_cpus();
  show_this_cpu(frame);
  // They print one after the other, so the time that all of them take is not bounded by this.
  uint64_t left = all;
  for (Nanoseconds end = monotonic_now() + kPatience; left != 0;) {
    const uint64_t now_left = awaited.load(std::memory_order_acquire);
    const Nanoseconds now = monotonic_now();
    if (std::exchange(left, now_left) != now_left) end = now + kPatience;
    if (now >= end) break;
    relax();
  }
  const uint64_t silent = awaited.exchange(0, std::memory_order_acquire);
  for (unsigned id = 0; id < cpu_count(); id++) {
    if (silent & bit(id)) console_print("  CPU %u does not answer", id);
  }
  if (silent == 0) panic_call_reports();
  console_print("NMI: end");
}

}  // namespace

void nmi_report(const TrapFrame& frame) {
  uint32_t nobody = kNobody;
  if (!leader.compare_exchange_strong(nobody, this_cpu().id, std::memory_order_acquire))
    return follow(frame);
  if (monotonic_now().value >= late_until.load(std::memory_order_relaxed)) {
    lead(frame);
    late_until.store((monotonic_now() + kLate).value, std::memory_order_relaxed);
  }
  leader.store(kNobody, std::memory_order_release);
}
