// Probes on functions of programs: functions for the process layer. probe.h has the consumers'
// view, user_probes.cc the theory.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>

#include "core/sleep.h"
#include "probe/probe.h"
#include "proc/address_space.h"

struct TrapFrame;
class ProbeTable;

// Numbers of programs with probes, of consumers with probes or watching memory, and of watchers.
struct UserProbesInUse {
  std::atomic<uint32_t> programs{0}, consumers{0}, watchers{0};
};
extern UserProbesInUse user_probes_in_use;

// A program with probes, found by hash.
struct ProbedProgram {
  ProgramId id;
  Ref<Chan> file;  // keeps the identity of the file
  std::atomic<ProbeTable*> table{nullptr};
  std::atomic<ProbedProgram*> next{nullptr};  // of its bucket
  ProbedProgram* next_gone =
      nullptr;  // of those that nobody finds any more, but for CPUs that have it at hand
};
inline constexpr size_t kProbedProgramBuckets = 64;
extern std::array<std::atomic<ProbedProgram*>, kProbedProgramBuckets> probed_programs;
inline std::atomic<ProbedProgram*>& probed_program_bucket(const ProgramId& id) {
  return probed_programs[id.file % kProbedProgramBuckets];
}

// Returns the probes on `id`; nullptr if there are none. Interrupts off; valid as long as they are.
inline const ProbeTable* user_probes_of(const ProgramId& id) {
  const ProbedProgram* program = probed_program_bucket(id).load(std::memory_order_acquire);
  while (program && !(program->id == id)) program = program->next.load(std::memory_order_acquire);
  return program ? program->table.load(std::memory_order_acquire) : nullptr;
}

// For TrapHandlers: false if the breakpoint is the program's own. user_probe_hit.cc.
bool user_probes_breakpoint(TrapFrame& frame);

bool user_probes_want_page(const ProgramId& program, uint64_t page);
// True if a page of `program`'s code, at address `page`, has probes, so that its space, which is
// locked, needs a copy.
inline bool user_probes_in_page(const ProgramId& program, uint64_t page) {
  return user_probes_in_use.programs.load(std::memory_order_relaxed) != 0 &&
         user_probes_want_page(program, page);
}
void user_probes_patch_page(const ProgramId& program, uint64_t page, uint8_t* bytes);
// A page of `program`'s code, at address `page`, is about to be mapped for the first time; its
// space is locked.
inline void user_probes_page_filled(const ProgramId& program, uint64_t page, void* bytes) {
  if (user_probes_in_use.programs.load(std::memory_order_relaxed) != 0) [[unlikely]] {
    user_probes_patch_page(program, page, static_cast<uint8_t*>(bytes));
  }
}

// Events of the current process, in its own task; may sleep.
enum class MemoryChange : uint8_t { kMapped, kUnmapped };
void user_probes_tell_thread_left(uint32_t id);
void user_probes_tell_left(uint32_t pid, ProcessLeft how);
void user_probes_tell_memory(MemoryChange change, uint64_t address, uint64_t size);
inline void user_probes_thread_left(uint32_t id) {
  if (user_probes_in_use.consumers.load(std::memory_order_relaxed) != 0) [[unlikely]]
    user_probes_tell_thread_left(id);
}
inline void user_probes_process_left(uint32_t pid, ProcessLeft how) {
  if (user_probes_in_use.consumers.load(std::memory_order_relaxed) != 0) [[unlikely]]
    user_probes_tell_left(pid, how);
}
// Held around a change of a process's memory and its report, so that changes of several threads at
// the same addresses are reported in their order.
class MemoryOrder {
 public:
  explicit MemoryOrder(Mutex& mutex) {
    if (user_probes_in_use.watchers.load(std::memory_order_relaxed) != 0) [[unlikely]]
      guard_.emplace(mutex);
  }

 private:
  std::optional<MutexGuard> guard_;
};
inline void user_probes_memory(MemoryChange change, uint64_t address, uint64_t size) {
  if (user_probes_in_use.watchers.load(std::memory_order_relaxed) != 0) [[unlikely]] {
    user_probes_tell_memory(change, address, size);
  }
}
