// A context is the process, kernel task or interrupt on whose behalf code allocates memory or calls
// a probed function. The table of contexts is intern/context_table.h.
//
// A context has a 32-bit id; 0 means "not recorded". An id is made on first use and cached in the
// task. Contexts exist only while something is traced, so that an untraced system does not collect
// contexts of ended processes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

struct TaskHead;

enum class ContextKind : uint8_t { kKernelTask, kProcess, kInterrupt };

// PIDs are 1..kMaxPid.
inline constexpr uint32_t kMaxPid = 32767;

inline constexpr size_t kMaxBuildId = 20;
// The program that a process runs.
struct TraceProgram {
  std::string_view path;
  std::span<const uint8_t> build_id;  // build id from the ELF note; empty if there is none
};
// A function that returns the program of a task. It is called with interrupts off, in any context
// but NMI, and takes no lock. The task is the current one and has a process. The result is valid
// while the task exists.
using ProgramProvider = TraceProgram (*)(const TaskHead& task);
void trace_register_program_provider(ProgramProvider provider);
// Called at exec: the task runs another program from now on, and has no user stack until it has
// entered user mode again.
void trace_program_changed(TaskHead& task);
