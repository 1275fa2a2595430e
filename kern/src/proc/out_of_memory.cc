// When memory is out at a page fault, the largest process is killed, not the faulting one.
// Otherwise a shell or a supervisor might die because of its children's memory. The faulting
// process waits until the victim's memory is free, and faults again.
//
// There is one victim at a time: while a process is ending, the others wait for it. Process 1 is
// never a victim, since the system ends with it. A process that has asked for its allocations to
// fail (FaultInjection) is always its own victim.
#include "proc/out_of_memory.h"

#include "arch/x86_64/time.h"
#include "core/log.h"
#include "proc/process_impl.h"
#include "trace/trace.h"

namespace {

constexpr Nanoseconds kPause{10'000'000};
constexpr unsigned kInitPausesTold = 1'000;  // one pause in so many is logged: 10 s

bool is_ending(const Process& process) REQUIRES(process_lock) {
  return process.state == ProcessState::kExiting || signal_kills(process);
}

// Returns the process with the most memory; nullptr if there is none but process 1, or if one is
// ending.
Process* choose_victim(bool* one_is_ending) REQUIRES(process_lock) {
  Process* victim = nullptr;
  *one_is_ending = false;
  for (Process& process : all_processes) {
    if (process.pid == kInitPid || process.state == ProcessState::kZombie) continue;
    if (is_ending(process)) {
      *one_is_ending = true;
      return nullptr;
    }
    if (!process.space) continue;
    if (!victim || process.space->resident_bytes() > victim->space->resident_bytes())
      victim = &process;
  }
  return victim;
}

}  // namespace

bool out_of_memory(Thread& thread, uint64_t address) {
  Process& process = thread.process;
  trace_report_out_of_memory();
  uint32_t victim_pid = 0;
  uint64_t victim_bytes = 0;
  bool one_is_ending = false;
  {
    const Guard guard(process_lock);
    if (signal_ends(thread)) return false;
    const bool asked_for = thread.task->fault_injection.failed > 0 && process.pid != kInitPid;
    if (Process* const victim = asked_for ? &process : choose_victim(&one_is_ending)) {
      victim_pid = victim->pid;
      victim_bytes = victim->space->resident_bytes();
      signal_post(*victim, ABI_SIGKILL);
    }
  }
  if (victim_pid != 0) {
    klog("pid %u %s: out of memory at 0x%lx; pid %u is killed, it has %lu KiB", process.pid,
         process.name, address, victim_pid, victim_bytes >> 10);
    if (victim_pid == process.pid) return false;
  } else if (!one_is_ending) {
    static unsigned pauses = 0;
    if (pauses++ % kInitPausesTold == 0)
      klog("pid %u %s: waits for memory at 0x%lx", process.pid, process.name, address);
  }
  static_cast<void>(task_sleep_until(monotonic_now() + kPause));
  return true;
}
