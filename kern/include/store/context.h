// Contexts: who allocates, or calls a probed function. The table is src/store/context_table.h.
//
// A context has a 32-bit id; 0 is "not recorded". Contexts live only while something is traced, so
// that a system that traces nothing does not collect the processes that come and go: an id is made
// when it is first wanted, and remembered in the task.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

struct TaskHead;

enum class ContextKind : uint8_t { kKernelTask, kProcess, kInterrupt };

// Processes are 1..kMaxPid.
inline constexpr uint32_t kMaxPid = 32767;

inline constexpr size_t kMaxBuildId = 20;
// What a process runs.
struct TraceProgram {
  std::string_view path;
  std::span<const uint8_t> build_id;  // of the ELF note; empty if there is none
};
// What the store asks of processes: which program does this task run? The task is the current one
// and has a process; it lives as long as the answer. Called with interrupts off, in any context but
// NMI; takes no lock.
using ProgramProvider = TraceProgram (*)(const TaskHead& task);
void trace_register_program_provider(ProgramProvider provider);
// The task is another program from now on (exec), and its user stack is none until it has entered
// user mode again.
void trace_program_changed(TaskHead& task);
