// Contexts: the tasks, processes and interrupts that allocate, each stored once under a 32-bit
// number (intern/table_impl.h).
//
// A context is a process with the program that it runs, a kernel task, or an interrupt. The first
// thread of a process has the context of the process, so a process with a single thread needs only
// one context. Each other thread has its own context. A context is small, because it refers to its
// program. A program is large, but is stored only once for all processes that run it. So a system
// that runs the same few programs again and again needs 40 bytes for each process. A context does
// not say which place in the program made a system call. The user stack in a record (stack_table.h)
// shows the place.
//
// Tasks cache the numbers of their contexts, so that the table is searched once for each program
// that a process runs. clear() does not clear these caches. Instead, each cached number carries the
// table's epoch, and clear() advances the epoch, which makes all cached numbers invalid. If there
// is no memory, intern() returns kNone, and the caller counts the loss. Allocator hooks and hits of
// probes call intern() with probes off, so no probe can hit while a chain is locked.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string_view>

#include "intern/context.h"
#include "intern/ids.h"
#include "intern/table_impl.h"

class ContextTable : public InternTable {
 public:
  // The program of a process. A kernel task and an interrupt have only a name.
  struct Program {
    uint8_t build_id_size;  // bytes; 0: there is no build id
    std::array<uint8_t, kMaxBuildId> build_id;
    char name[32];  // name and path are NUL-terminated and printable
    char path[70];  // a longer path is cut; only the used bytes are stored
  };
  struct Context {
    const Program* program;
    uint32_t thread;  // 0 for a process's first thread, a kernel task and an interrupt
    uint16_t pid;     // 0 for a kernel task and an interrupt
    ContextKind kind;
  };
  static_assert(kMaxPid <= UINT16_MAX);

  constexpr ContextTable() = default;

  // Makes the table ready for use. ENOMEM. No tracer lock held.
  Result<void> open() { return InternTable::open(); }
  // Forgets every context and frees the memory. Nobody uses the table. No tracer lock held.
  void clear();

  // Returns the number of a context; kNone if the context cannot be stored or the table is not
  // open. Long texts and build ids are cut, and unprintable characters become '?'. Any context but
  // NMI, interrupts off, after trace_memory_prepare(); takes kInternTable. Bound: two passes over
  // two chains.
  ContextId intern(ContextKind kind, uint32_t pid, std::string_view name,
                   const TraceProgram& program = {}, uint32_t thread = 0);

  // Returns the value that a task or an interrupt caches for a number: the number and the epoch.
  // Returns 0 for kNone. The sweeper retains the cached numbers in each sweep.
  uint64_t remember(ContextId id) const {
    return id == ContextId::kNone ? 0 : base_.load(std::memory_order_relaxed) | number_of(id);
  }
  // Returns the number in a value from remember(). Valid only if remembers() is true for the value.
  static constexpr ContextId number_in(uint64_t remembered) {
    return ContextId{static_cast<uint32_t>(remembered)};
  }
  // True if the value is not 0 and remember() made it after the last clear().
  bool remembers(uint64_t remembered) const {
    return remembered >= base_.load(std::memory_order_relaxed);
  }
  // Returns the number in the value if remembers() is true for it, otherwise kNone.
  ContextId recall(uint64_t remembered) const {
    return remembers(remembered) ? number_in(remembered) : ContextId::kNone;
  }
  // Returns the context with this number; nullptr for kNone. The context is valid as long as a
  // user retains the number in each sweep. Lock-free.
  const Context* get(ContextId id) const {
    return id == ContextId::kNone ? nullptr
                                  : reinterpret_cast<const Context*>(at(number_of(id)).data);
  }
  // Formats a context as "pid 3 sh", "pid 3 thread 17 sh", "irq timer" or "task reaper"; "unknown"
  // for nullptr. Returns what ::format() returns.
  static int format(char* buffer, size_t size, const Context* context);
  // Keeps the context in this sweep (InternTable::retain()). Does nothing for kNone.
  void retain(ContextId id) { InternTable::retain(number_of(id)); }
  // Returns the number of contexts; exact while no intern() runs.
  uint32_t size() const { return count(Pass::kReferring); }

 private:
  uint32_t find_or_add(Kind kind, const uint64_t* pairs, size_t size);

  // The epoch: its upper half is the number of clear() calls plus one.
  static constexpr uint64_t kStep = uint64_t{1} << 32;
  std::atomic<uint64_t> base_{kStep};
};
static_assert(sizeof(ContextTable::Context) == 16);
