// Boot, from the first C++ instruction to the first process: sets up all subsystems, in the order
// of their dependencies.
#include "arch/x86_64/acpi.h"
#include "arch/x86_64/cpu_setup.h"
#include "arch/x86_64/interrupt_controller.h"
#include "arch/x86_64/io.h"
#include "arch/x86_64/paging.h"
#include "arch/x86_64/smp.h"
#include "arch/x86_64/time.h"
#include "core/boot.h"
#include "core/ktest.h"
#include "core/log.h"
#include "core/planted.h"
#include "core/power.h"
#include "core/screen.h"
#include "core/uart.h"
#include "drivers/dev/devices.h"
#include "ns/namespace.h"
#include "pages.h"
#include "proc/process.h"
#include "reach/reach.h"
#include "sched/task.h"
#include "src/kasan.h"
#include "trace/trace.h"

extern "C" [[noreturn]] void kernel_main(uint32_t protocol, uint32_t information);
extern "C" char boot_stack_top[];

// Exists only in configurations with kernel tests.
[[gnu::weak]] void ktest_run_all();

namespace {

constexpr uint64_t kMiB = 1 << 20;

void setup_boot_cpu() {
  const uint64_t top = reinterpret_cast<uint64_t>(boot_stack_top);
  uint64_t ist_tops[kIstCount];
  for (unsigned i = 0; i < kIstCount; i++)
    ist_tops[i] = top + (i + 1) * (kPageSize + kIstStackSize);
  cpu_find_features();
  cpu_setup(kBootCpu, initial_apic_id(), top, ist_tops);
}

// The rest of boot. Runs as a task, so it may sleep.
void finish_boot(void*) {
  klog("%u CPUs, %lu MiB of memory free", cpu_count(), memory_totals().free >> 20);
  proc_init();
  ns_init();
  devices_init();
  size_t length;
  if (boot_option("ktest", &length)) {
    if (ktest_run_all) ktest_run_all();
    klog("ktest: this kernel has no tests; VARIANT=debug has them");
    power_off(ExitCode::kTestsFailed);
  }
  if (boot_option("poweroff", &length))
    power_off(ExitCode::kOff);  // scripts/guest uses this to test KVM
  boot_report_unknown_words();
  trace_report_missing_names("trace");
  trace_report_missing_names("check");
  if (!process_start_init("/bin/init")) panic("no program /bin/init");
  task_exit();
}

}  // namespace

void kernel_main(uint32_t protocol, uint32_t information) {
  cpu_early_setup();
  uart_early_init();
  boot_parse(protocol, {information});
  acpi_init(boot_info().acpi_root);
  setup_boot_cpu();
  paging_init();
  screen_init();
  kasan_init();
  interrupt_controllers_init();
  time_init();
  klog("stele: booted by %s, %lu MiB of memory, %u CPUs, command line '%s'",
       protocol == 0 ? "PVH" : "Multiboot2", align_up(boot_info().memory.bytes(), kMiB) / kMiB,
       acpi_info().cpu_count, boot_info().command_line);
  planted_init();
  early_alloc_close();
  memory_init();
  paging_use_page_arena();
  trace_init();
  trace_report_init();
  reach_init();
  sched_init();
  smp_start();
  time_start_tick();
  Result<Task*> main_task = task_create("main", finish_boot, nullptr);
  if (!main_task) panic("no memory for the first task");
  task_start(*main_task);
  sched_start_cpu();
}
