#include "reach/stop_impl.h"

#include <atomic>

#include "arch/x86_64/io.h"
#include "arch/x86_64/smp.h"
#include "core/cpu.h"
#include "lib/optimizer.h"

namespace reach {
namespace {

struct Stop {
  void (*work)(void*);
  void* argument;
  CpuId leader;
  unsigned others;  // number of CPUs that must wait
  std::atomic<unsigned> waiting{0};
  std::atomic<bool> over{false};
};

constinit uint64_t stack_pointers[kMaxCpus] = {};

// Runs on each CPU, interrupts off. Stores the callee-saved registers on the stack, for the leader:
// no interrupt has stored the leader's registers.
[[gnu::noinline]] void world_stopped(void* argument) {
  Stop& stop = *static_cast<Stop*>(argument);
  uint64_t registers[6];
  asm volatile(
      "movq %%rbx, (%0)\n\tmovq %%rbp, 8(%0)\n\tmovq %%r12, 16(%0)\n\t"
      "movq %%r13, 24(%0)\n\tmovq %%r14, 32(%0)\n\tmovq %%r15, 40(%0)" ::"r"(registers)
      : "memory");
  uint64_t stack_pointer;
  asm volatile("movq %%rsp, %0" : "=r"(stack_pointer));
  const CpuId me = cpu_id();
  stack_pointers[number_of(me)] = stack_pointer;
  if (me != stop.leader) {
    stop.waiting.fetch_add(1, std::memory_order_release);
    while (!stop.over.load(std::memory_order_acquire)) cpu_relax();
  } else {
    while (stop.waiting.load(std::memory_order_acquire) != stop.others) cpu_relax();
    stop.work(stop.argument);
    stop.over.store(true, std::memory_order_release);
  }
  escape(registers);  // the stored registers stay in use until here
}

}  // namespace

void with_world_stopped(void (*work)(void*), void* argument) {
  const PreemptOff on_this_cpu;
  Stop stop{.work = work, .argument = argument, .leader = cpu_id(), .others = 0};
  for (const CpuId id : all_cpus())
    stop.others += id != stop.leader && __atomic_load_n(&cpu(id).online, __ATOMIC_ACQUIRE);
  on_each_cpu(world_stopped, &stop);
}

uint64_t stopped_stack(CpuId cpu) {
  return stack_pointers[number_of(cpu)];
}

}  // namespace reach
