// Other CPUs. smp_start() starts them one after the other by INIT and STARTUP (Intel SDM volume 3,
// section 9.4.4): a page below 1 MiB holds the code that takes a CPU from real mode into the kernel
// (trampoline.S). The CPUs' stacks lie in the kernel's virtual range, each above an unmapped guard
// page.
//
// Cross-CPU calls go through one slot, which one caller has at a time. A caller waits for the slot,
// and then for the other CPUs to finish. A caller waits with interrupts on, so that its own CPU can
// still run the functions of other callers.
#include "arch/x86_64/smp.h"

#include <atomic>

#include "arch/x86_64/acpi.h"
#include "arch/x86_64/context.h"
#include "arch/x86_64/cpu_setup.h"
#include "arch/x86_64/interrupt_controller.h"
#include "arch/x86_64/interrupts.h"
#include "arch/x86_64/io.h"
#include "arch/x86_64/paging.h"
#include "arch/x86_64/time.h"
#include "arch/x86_64/trap.h"
#include "arch/x86_64/tsc_sync_impl.h"
#include "arena.h"
#include "core/boot.h"
#include "core/log.h"
#include "lib/string.h"
#include "pages.h"
#include "sched/task.h"
#include "slab.h"

extern "C" const char trampoline_start[], trampoline_end[], trampoline_parameters[];
extern "C" uint64_t boot_pml4[];
extern "C" [[noreturn]] void ap_main(uint64_t id);

namespace {

constexpr uint64_t kTrampolinePage = 0x8000;
constexpr Nanoseconds kInitDelay{200'000}, kStartupDelay{20'000'000}, kGiveUp{10'000'000'000};

constexpr uint32_t kMaxXapicId = 254;  // 255 means all CPUs

struct TrampolineParameters {
  uint64_t kernel_root;
  uint64_t stack_top;
  uint64_t id;
};

constinit uint64_t ist_tops[kMaxCpus][kIstCount];
constinit uint64_t stack_tops[kMaxCpus];
constinit uint32_t apic_ids[kMaxCpus];

constinit TscComparison comparison{tsc_in_order};  // a CPU that starts asks the boot CPU

constinit std::atomic<bool> call_busy{false};
constinit std::atomic<uint64_t> call_pending{0};
void (*call_function)(void*) = nullptr;
constinit void* call_argument = nullptr;

constexpr uint64_t bit(CpuId id) {
  return uint64_t{1} << number_of(id);
}

void on_cross_call(TrapFrame&, void*) {
  const uint64_t me = bit(this_cpu().id);
  if (!(call_pending.load(std::memory_order_acquire) & me)) return;
  irq_off_blame(reinterpret_cast<const void*>(call_function));
  call_function(call_argument);
  call_pending.fetch_and(~me, std::memory_order_release);
}

void on_reschedule(TrapFrame&, void*) {}  // the interrupt's exit checks need_resched

void wait(Nanoseconds time) {
  const Nanoseconds end = monotonic_now() + time;
  while (monotonic_now() < end) cpu_relax();
}

bool wait_online(CpuId id, Nanoseconds time) {
  const Nanoseconds end = monotonic_now() + time;
  while (!__atomic_load_n(&cpu(id).online, __ATOMIC_ACQUIRE)) {
    if (monotonic_now() > end) return false;
    comparison.answer();
    cpu_relax();
  }
  return true;
}

// Compares this CPU's time stamp counter with the boot CPU's, and sets it if the processor can add
// a number to it (IA32_TSC_ADJUST, Intel SDM volume 3, section 18.17.3). Does nothing under QEMU
// -icount, where the CPUs share one counter and run in turn, so that a question costs millions of
// instructions.
void align_counter(CpuId id) {
  size_t length;
  if (boot_option("icount", &length)) return;
  TscDifference difference = comparison.ask();
  if (!difference.is_certain()) return;
  constexpr uint32_t kMsrTscAdjust = 0x3b, kHasAdjust = 1 << 1;
  if (cpuid(0).eax >= 7 && (cpuid(7).ebx & kHasAdjust)) {
    write_msr(kMsrTscAdjust, read_msr(kMsrTscAdjust) + static_cast<uint64_t>(difference.ticks));
    difference = comparison.ask();
    if (!difference.is_certain()) return;
  }
  klog("smp: the time stamp counter of CPU %u differs by %ld ticks", number_of(id),
       difference.ticks);
  time_counters_differ();
}

// Makes a stack of `size` bytes above an unmapped page. Returns its top. ENOMEM.
Result<uint64_t> make_stack(size_t size) {
  void* range = arena_alloc(kernel_virtual_arena, size + kPageSize, KM_ATOMIC);
  if (!range) return Errno::ENOMEM;
  const uint64_t base = reinterpret_cast<uint64_t>(range) + kPageSize;
  for (size_t offset = 0; offset < size; offset += kPageSize) {
    TRY(map_kernel(base + offset, TRY(page_alloc(KM_ATOMIC)), kPageSize, Access::kReadWrite));
  }
  return base + size;
}

Result<void> make_stacks(unsigned id) {
  stack_tops[id] = TRY(make_stack(kKernelStackSize));
  for (uint64_t& top : ist_tops[id]) top = TRY(make_stack(kIstStackSize));
  return {};
}

bool start_cpu(unsigned id, TrampolineParameters& parameters) {
  if (!make_stacks(id)) return false;
  parameters = {read_cr3(), stack_tops[id], id};
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
  for (int attempt = 0; attempt < 2; attempt++) {
    local_apic_send_startup(apic_ids[id], kTrampolinePage >> kPageShift);
    if (wait_online(CpuId{id}, attempt == 0 ? kStartupDelay : kGiveUp)) return true;
  }
  return false;
}

// Starts CPUs 1 to `found` - 1. Returns the number of CPUs that run.
unsigned start_others(unsigned found) {
  auto* trampoline = static_cast<char*>(direct_map({kTrampolinePage}));
  memcpy(trampoline, trampoline_start, trampoline_end - trampoline_start);
  auto& parameters = *reinterpret_cast<TrampolineParameters*>(
      trampoline + (trampoline_parameters - trampoline_start));
  for (unsigned id = 1; id < found; id++) local_apic_send_init(apic_ids[id]);
  wait(kInitDelay);
  for (unsigned id = 1; id < found; id++) {
    if (start_cpu(id, parameters)) continue;
    klog("smp: CPU %u (local APIC %u) does not start; continuing with %u", id, apic_ids[id], id);
    return id;
  }
  return found;
}

}  // namespace

void smp_start() {
  if (!interrupt_register_vector(kVectorCrossCall, "cross call", on_cross_call, nullptr) ||
      !interrupt_register_vector(kVectorReschedule, "reschedule", on_reschedule, nullptr)) {
    panic("vectors of interprocessor interrupts are taken");
  }
  cpu(kBootCpu).online = true;
  const AcpiInfo& acpi = acpi_info();
  unsigned found = 1;
  for (unsigned i = 0; i < acpi.cpu_count; i++) {
    const uint32_t apic_id = acpi.apic_ids[i];
    if (apic_id == cpu(kBootCpu).apic_id || found == kMaxCpus) continue;
    if (apic_id > kMaxXapicId && !local_apic_has_wide_ids()) {
      klog("smp: no message reaches the CPU with local APIC %u; it stays unused", apic_id);
      continue;
    }
    apic_ids[found++] = apic_id;
  }
  if (found > 1 && !boot_info().memory.contains(kTrampolinePage, kPageSize)) {
    klog("smp: no memory at 0x%lx; continuing with 1 CPU", kTrampolinePage);
    found = 1;
  }
  if (found > 1) found = start_others(found);
  cpu_set_count(found);
  memset(boot_pml4, 0, kPageSize);  // all CPUs have left the boot page tables
}

void ap_main(uint64_t id) {
  cpu_setup(CpuId{static_cast<uint32_t>(id)}, apic_ids[id], stack_tops[id], ist_tops[id]);
  local_apic_init();
  align_counter(CpuId{static_cast<uint32_t>(id)});
  time_start_tick();
  __atomic_store_n(&this_cpu().online, true, __ATOMIC_RELEASE);
  sched_start_cpu();
}

void call_on_cpus(uint64_t cpus, void (*function)(void*), void* argument) {
  const PreemptOff preempt_off;
  const CpuId me = cpu_id();
  uint64_t others = 0;
  for (const CpuId id : all_cpus()) {
    if (id != me && (cpus & bit(id)) && cpu(id).online) others |= bit(id);
  }
  if (others) {
    ASSERT(interrupts_enabled() && this_cpu().held_locks == 0);
    while (call_busy.exchange(true, std::memory_order_acquire)) {
      while (call_busy.load(std::memory_order_relaxed)) cpu_relax();
    }
    call_function = function;
    call_argument = argument;
    call_pending.store(others, std::memory_order_release);
    for (const CpuId id : all_cpus()) {
      if (others & bit(id)) local_apic_send(cpu(id).apic_id, kVectorCrossCall);
    }
  }
  if (cpus & bit(me)) {
    const InterruptsOff off;
    irq_off_blame(reinterpret_cast<const void*>(function));
    function(argument);
  }
  if (others) {
    while (call_pending.load(std::memory_order_acquire)) cpu_relax();
    call_busy.store(false, std::memory_order_release);
  }
}

void on_each_cpu(void (*function)(void*), void* argument) {
  call_on_cpus(~uint64_t{0}, function, argument);
}

void cpu_kick(CpuId id) {
  local_apic_send(cpu(id).apic_id, kVectorReschedule);
}

void stop_other_cpus() {
  if (cpu_count() > 1) local_apic_send_nmi_to_others();
}
