// Contexts, each kept once and named by a 32-bit number: who allocated.
//
// A context is a process with the program that it runs, a kernel task, or an interrupt. It is small
// and refers to its program, which is large and kept once for all its processes: a system that runs
// the same few programs again and again needs 24 bytes for each process. From where in the program
// a system call came says the record's stack (stack_table.h), not the context.
//
// As the stack table, but small and with a lock for each look-up: tasks remember their numbers, so
// that it is asked about once for each program that a process runs. A number is never given twice,
// also not after clear(): what was remembered from before is known to be stale by its lying
// outside. When no numbers are left (after four billion), or no memory, the number 0 is returned,
// which the caller counts. Hooks and hits of probes ask; hits may not come while the lock is held,
// and they do not, as both keep probes off.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <span>
#include <string_view>

#include "core/spinlock.h"
#include "lib/result.h"
#include "store/context.h"
#include "store/intern_table.h"
#include "store/page_directory.h"

class ContextTable : public InternTable {
 public:
  // What runs: of a kernel task and an interrupt, nothing but a name.
  struct Program {
    Program* next;
    uint32_t hash;
    uint8_t build_id_size;  // 0: there is none
    std::array<uint8_t, kMaxBuildId> build_id;
    char name[32];  // NUL-terminated and printable, both
    char path[70];  // a longer one is cut
  };
  struct Context {
    Context* next;
    const Program* program;
    uint32_t id;
    uint16_t pid;  // 0 for what is not a process
    ContextKind kind;
  };
  static_assert(kMaxPid <= UINT16_MAX);

  constexpr ContextTable() = default;
  ContextTable(const ContextTable&) = delete;
  ContextTable& operator=(const ContextTable&) = delete;

  // Makes it ready for use. ENOMEM. No tracer lock held.
  Result<void> open();
  // Forgets every context and frees the memory. No one uses the table. No tracer lock held.
  void clear();
  bool is_open() const { return open_.load(std::memory_order_acquire); }

  // The number of a context, 0 when it cannot be stored or the table is not open. Texts and build
  // ids are cut, and characters that cannot be printed become '?'. Any context but NMI, after
  // trace_memory_prepare(); takes kContextTable. Bound: two chains.
  uint32_t intern(ContextKind kind, uint32_t pid, std::string_view name,
                  const TraceProgram& program = {});

  // What a task or an interrupt remembers of a number: it is told from one of before the last
  // clear(). 0 for 0.
  uint64_t remember(uint32_t id) const { return id; }
  // The number that was remembered; 0 if it is none, or one from before the last clear().
  // Lock-free.
  uint32_t recall(uint64_t remembered) const {
    const auto id = static_cast<uint32_t>(remembered);
    return valid(id) ? id : 0;
  }
  // Whether it was returned since the last clear().
  bool valid(uint32_t id) const {
    return id - base_.load(std::memory_order_relaxed) < size_.load(std::memory_order_relaxed);
  }
  // The same of what was returned at any time, or is 0.
  bool remembers(uint32_t id) const { return id >= base_.load(std::memory_order_relaxed); }
  // nullptr for 0. Lock-free.
  const Context* get(uint32_t id) const;
  // Ids are base() … base() + size() - 1.
  uint32_t base() const { return base_.load(std::memory_order_relaxed); }
  uint32_t size() const { return size_.load(std::memory_order_acquire); }

 private:
  static constexpr uint32_t kPerPage = kPageSize / sizeof(Context);
  static constexpr uint32_t kHeads = kPageSize / sizeof(void*) / 2;
  // One page.
  struct Heads {
    Program* programs[kHeads];
    Context* contexts[kHeads];
  };
  static_assert(sizeof(Heads) == kPageSize);
  struct ProgramPage {
    static constexpr uint32_t kPrograms = (kPageSize - 16) / sizeof(Program);
    ProgramPage* next;
    uint64_t used;
    Program programs[kPrograms];
  };
  static_assert(sizeof(ProgramPage) <= kPageSize);

  Program* make_program() REQUIRES(lock_);
  const Program* find_or_add(const Program& wanted) REQUIRES(lock_);
  uint32_t find_or_add(ContextKind kind, uint16_t pid, const Program* program) REQUIRES(lock_);

  Spinlock lock_{LockRank::kContextTable};
  // Guarded by lock_ for writing.
  PageDirectory pages_;
  ProgramPage* program_pages_ = nullptr;  // the newest first; only that has room
  std::atomic<uint32_t> base_{1};
  std::atomic<uint32_t> size_{0};
  Heads* heads_ = nullptr;
  std::atomic<bool> open_{false};
};
static_assert(sizeof(ContextTable::Program) == 136 && sizeof(ContextTable::Context) == 24);
