// If a page fault finds no free memory, the largest process of the user who has the most memory is
// killed. So no process of another user dies, however many small processes that user has. The fault
// alone does not make a process the victim, because the faulting process may be a shell or a
// supervisor whose children use the memory. The memory of a process is its pages, its page tables
// and its threads' kernel memory. The memory of a user is that of the processes with this real
// user, and everything that is charged to the user's account (user_account.cc). Program text and
// other pages that the page cache keeps do not count. If the largest process has a child of the
// same user of at least half its size, the child is the victim instead. The same rule is then
// applied to the child. So a shell does not die in place of the processes that it runs. The
// faulting process pauses and faults again, until there is free memory.
//
// There is one victim at a time: while any process is ending, no other process is killed. But if
// fault injection (FaultInjection) has made an allocation of the faulting task fail, the task's own
// process is killed even then. Process 1 is never a victim, because the kernel panics when process
// 1 ends.
#include "proc/out_of_memory_impl.h"

#include <utility>

#include "arch/x86_64/time.h"
#include "core/log.h"
#include "proc/process_impl.h"
#include "proc/user_log_impl.h"
#include "trace/trace.h"

namespace {

constexpr Nanoseconds kPause{10'000'000};
constexpr unsigned kInitPausesTold = 1'000;  // only one of this many pauses is logged: every 10 s

bool is_ending(const Process& process) REQUIRES(process_lock) {
  return process.state == ProcessState::kExiting || signal_kills(process);
}

uint64_t space_bytes(const Process& process) {
  return process.space ? process.space->own_bytes() + process.space->table_bytes() : 0;
}

uint64_t own_bytes(const Process& process) REQUIRES(process_lock) {
  return space_bytes(process) + process.thread_count * charged_bytes(Charged::kThread);
}

// Sets UserAccount::memory_found for each user who has a process.
void find_memory_of_users() REQUIRES(process_lock) {
  for (const Process& process : all_processes)
    process.account->memory_found = process.account->bytes;
  for (const Process& process : all_processes)
    process.account->memory_found += space_bytes(process);
}

// Returns the largest child of the same user that has at least half the memory of `process`;
// nullptr if none has.
Process* large_child(Process& process) REQUIRES(process_lock) {
  Process* found = nullptr;
  for (Process& child : process.children) {
    if (child.state == ProcessState::kZombie || &*child.account != &*process.account ||
        own_bytes(child) < own_bytes(process) / 2)
      continue;
    if (!found || own_bytes(child) > own_bytes(*found)) found = &child;
  }
  return found;
}

// If a process is already ending, sets `*one_is_ending` to true and returns nullptr. Otherwise sets
// `*one_is_ending` to false and returns the victim, or nullptr if only process 1 has an
// address space.
Process* choose_victim(bool* one_is_ending) REQUIRES(process_lock) {
  Process* victim = nullptr;
  *one_is_ending = false;
  find_memory_of_users();
  for (Process& process : all_processes) {
    if (process.pid == kInitPid || process.state == ProcessState::kZombie) continue;
    if (is_ending(process)) {
      *one_is_ending = true;
      return nullptr;
    }
    if (!process.space) continue;
    const auto memory = [](const Process& of) REQUIRES(process_lock) {
      return std::pair(of.account->memory_found, own_bytes(of));
    };
    if (!victim || memory(process) > memory(*victim)) victim = &process;
  }
  for (Process* child = victim; child; child = large_child(*victim)) victim = child;
  return victim;
}

}  // namespace

bool out_of_memory(Thread& thread, uint64_t address) {
  Process& process = thread.process;
  trace_report_out_of_memory();
  uint32_t victim_pid = 0;
  uint64_t victim_bytes = 0;
  bool one_is_ending = false, told = false;
  {
    const Guard guard(process_lock);
    if (signal_ends(thread)) return false;
    const bool asked_for = thread.task->fault_injection.failed > 0 && process.pid != kInitPid;
    if (Process* const victim = asked_for ? &process : choose_victim(&one_is_ending)) {
      victim_pid = victim->pid;
      victim_bytes = own_bytes(*victim);
      told = user_log_permits(*victim);
      signal_post(*victim, ABI_SIGKILL);
    }
  }
  if (victim_pid != 0) {
    if (told)
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
