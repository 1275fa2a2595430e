// Processes: threads with an address space, descriptors, a parent and children.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/ref.h"
#include "lib/result.h"
#include "ns/namespace.h"
#include "sched/task.h"

// Makes process 1 from the file `path` of the root namespace, with arguments {path}. The kernel
// panics when process 1 ends.
Result<void> process_start_init(const char* path);

// The process of the current task, or nullptr.
Process* current_process();

// Returns an open file of the current process. EBADF if the descriptor is not open, or the current
// task has no process.
Result<Ref<Chan>> process_file(int fd);

// --- For #proc, #cons and the tracer.

// Identifies a process uniquely: its PID, and the number of times that PIDs had wrapped around when
// the process got the PID.
struct ProcessId {
  uint32_t pid = 0, generation = 0;
  bool operator==(const ProcessId&) const = default;
};

struct ProcessInfo {
  uint32_t pid, generation, parent, group, session;
  Credentials who;
  char state;             // R S Z T as ps shows it
  char name[32];          // last component of the program's path
  uint64_t memory_bytes;  // bytes of resident user memory
  uint64_t own_bytes;     // AddressSpace::own_bytes()
  Nanoseconds user_time, system_time;
  Nanoseconds started;  // since boot
  uint32_t terminal;    // (major << 8) | minor; 0: none
  uint32_t threads;     // number of threads; 0 for a zombie
};
// Returns facts about the process. ESRCH if there is no such process.
Result<ProcessInfo> process_info(uint32_t pid);
Result<ProcessInfo> process_info(ProcessId id);
// The ELF file that a process runs; for a script, the file of its interpreter. Too large for a
// kernel stack.
struct ProcessProgram {
  char path[256];
  uint8_t build_id_size;
  uint8_t build_id[32];
};
// ESRCH if there is no such process.
Result<void> process_program(ProcessId id, ProcessProgram& program);
struct ThreadInfo {
  uint32_t id;
  char state;  // R S T
  char name[32];
  Nanoseconds user_time, system_time;
};
// Among the threads of the process, returns the one with the smallest id above `id`; ESRCH if there
// is none.
Result<ThreadInfo> process_next_thread(ProcessId process, uint32_t id);
// Returns the smallest PID greater than `pid`; 0 if there is none. Includes zombies.
uint32_t process_next(uint32_t pid);
// The bytes of all memory that the process has mapped, the stack's whole region included; 0 for a
// zombie and for a process that is gone. May sleep.
uint64_t process_mapped_bytes(ProcessId id);
// Copies the process's arguments, separated by NULs, from the process's memory. ESRCH. May sleep.
Result<size_t> process_command_line(ProcessId id, char* buffer, size_t size);

// Sends a signal to the process `pid` (> 0), or to those processes of the group -`pid` (`pid` < 0)
// that `who` may send it to. Root may send any signal, and so may the owner of a process. SIGCONT
// may also be sent to a process of the caller's session. ESRCH; EINVAL for an invalid signal; EPERM
// if no process may get the signal. May be called in any context but NMI if who.uid is 0.
Result<void> process_signal(int32_t pid, int signal, const Credentials& who);
// Sends a signal to this process, but not to another process that has the same PID by now. Returns
// the same errors, and may be called in the same contexts, as process_signal(pid).
Result<void> process_signal(ProcessId id, int signal, const Credentials& who);

// True if the current process is ending, or a signal that ends it is pending: long loops of devices
// then give up. False in a kernel task.
bool process_is_ending();

void proc_init();
