// Probes on functions of programs: the interface for the process layer. probe.h has the interface
// for consumers; user_probes.cc explains how the probes work.
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

// `programs`: number of programs with probes. `consumers`: number of consumers that have probes or
// watch memory. `watchers`: number of consumers that watch memory.
struct UserProbesInUse {
  std::atomic<uint32_t> programs{0}, consumers{0}, watchers{0};
};
extern UserProbesInUse user_probes_in_use;

// A program with probes, found by hash.
struct ProbedProgram {
  ProgramId id;
  Ref<Chan> file;  // held, so that the file keeps its identity
  std::atomic<ProbeTable*> table{nullptr};
  std::atomic<ProbedProgram*> next{nullptr};  // next program of the bucket
  // The next program in a list of removed programs, which CPUs may still be using.
  ProbedProgram* next_gone = nullptr;
};
inline constexpr size_t kProbedProgramBuckets = 64;
extern std::array<std::atomic<ProbedProgram*>, kProbedProgramBuckets> probed_programs;
inline std::atomic<ProbedProgram*>& probed_program_bucket(const ProgramId& id) {
  return probed_programs[id.file % kProbedProgramBuckets];
}

// Returns the probes on the program `id`; nullptr if there are none. Called with interrupts off;
// the table is valid until this CPU enables interrupts.
inline const ProbeTable* user_probes_of(const ProgramId& id) {
  const ProbedProgram* program = probed_program_bucket(id).load(std::memory_order_acquire);
  while (program && !(program->id == id)) program = program->next.load(std::memory_order_acquire);
  return program ? program->table.load(std::memory_order_acquire) : nullptr;
}

// Handles a breakpoint, as a callback of TrapHandlers (user_probe_hit.cc). False if the breakpoint
// is the program's own.
bool user_probes_breakpoint(TrapFrame& frame);

bool user_probes_want_page(const ProgramId& program, uint64_t page);
// True if the page at address `page` of `program`'s code has probes. The address space that maps
// the page then needs its own copy. The caller has locked the address space.
inline bool user_probes_in_page(const ProgramId& program, uint64_t page) {
  return user_probes_in_use.programs.load(std::memory_order_relaxed) != 0 &&
         user_probes_want_page(program, page);
}
void user_probes_patch_page(const ProgramId& program, uint64_t page, uint8_t* bytes);
// Writes the breakpoints to `bytes`, a page that is about to be mapped at address `page` of
// `program`. The caller has locked the address space.
inline void user_probes_page_filled(const ProgramId& program, uint64_t page, void* bytes) {
  if (user_probes_in_use.programs.load(std::memory_order_relaxed) != 0) [[unlikely]] {
    user_probes_patch_page(program, page, static_cast<uint8_t*>(bytes));
  }
}

// The following functions report events of the current process to the consumers. Called by a task
// of this process; may sleep.
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
// If any consumer watches memory, holds Process::memory_mutex while the process's memory is changed
// and until the change has been reported. So changes by several threads at the same addresses are
// reported in the order in which they happen.
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
