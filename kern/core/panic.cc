// Panic: stops all other CPUs. Then prints the message, the interrupted registers, the backtrace
// (through up to four traps on this stack), the locks held, and the registered reports. Allocates
// nothing, waits for no lock.
#include "core/panic.h"

#include <atomic>
#include <cstdarg>

#include "arch/x86_64/interrupts.h"
#include "arch/x86_64/io.h"
#include "arch/x86_64/smp.h"
#include "core/console_print.h"
#include "core/cpu.h"
#include "core/log.h"
#include "core/power.h"
#include "lib/format.h"

namespace {

constexpr CpuId kNobody{UINT32_MAX};
constexpr unsigned kMaxReports = 4;
constinit std::atomic<CpuId> panicking_cpu{kNobody};
void (*reports[kMaxReports])() = {};
constinit Backtrace backtrace = {};

[[noreturn]] void end(const TrapFrame* frame, uint64_t frame_pointer, const char* pattern,
                      va_list arguments) {
  interrupts_disable();
  Cpu& cpu = this_cpu();
  cpu.probes_off++;
  CpuId nobody = kNobody;
  if (!panicking_cpu.compare_exchange_strong(nobody, cpu.id)) {
    if (nobody != cpu.id) halt_forever();
    console_print("kernel panic: again, while showing the first");
    power_off(ExitCode::kPanic);
  }
  stop_other_cpus();
  char message[256];
  vformat(message, sizeof(message), pattern, arguments);
  console_print("%s", "");
  console_print("kernel panic: %s", message);
  console_print_cpu(backtrace, frame, frame_pointer);
  panic_call_reports();
  power_off(ExitCode::kPanic);
}

}  // namespace

bool panicking() {
  return panicking_cpu.load(std::memory_order_relaxed) != kNobody;
}

void panic_give_way() {
  const CpuId cpu = panicking_cpu.load(std::memory_order_relaxed);
  if (cpu != kNobody && cpu != this_cpu().id) halt_forever();
}

void panic_call_reports() {
  for (auto* report : reports) {
    if (report) report();
  }
}

void panic_register_report(void (*report)()) {
  for (auto*& slot : reports) {
    if (slot) continue;
    slot = report;
    return;
  }
}

void panic(const char* pattern, ...) {
  va_list arguments;
  va_start(arguments, pattern);
  end(nullptr, reinterpret_cast<uint64_t>(__builtin_frame_address(0)), pattern, arguments);
}

void panic_from_trap(const TrapFrame& frame, const char* pattern, ...) {
  va_list arguments;
  va_start(arguments, pattern);
  end(&frame, reinterpret_cast<uint64_t>(__builtin_frame_address(0)), pattern, arguments);
}
