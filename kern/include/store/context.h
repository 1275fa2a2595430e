// Contexts: the process or interrupt that allocates, or calls a probed function. The table is
// src/store/context_table.h.
//
// A context has a 32-bit id; 0 means "not recorded". An id is made on first use and cached in the
// task. Contexts exist only while something is traced, so that an untraced system does not collect
// processes that have ended.
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
// The program that a process runs.
struct TraceProgram {
  std::string_view path;
  std::span<const uint8_t> build_id;  // of the ELF note; empty if there is none
};
// Returns the program of a task. The task is the current one and has a process; the result is valid
// as long as the task. Called with interrupts off, in any context but NMI; takes no lock.
using ProgramProvider = TraceProgram (*)(const TaskHead& task);
void trace_register_program_provider(ProgramProvider provider);
// The task runs another program from now on (exec), and has no user stack until it has entered user
// mode again.
void trace_program_changed(TaskHead& task);
