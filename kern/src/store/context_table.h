// Contexts, each kept once and named by a 32-bit number (intern_table.h): who allocated.
//
// A context is a process with the program that it runs, a kernel task, or an interrupt. A process's
// first thread is named by the process alone, so that one with a single thread has one context;
// every other thread has a context of its own. A context is small and refers to its program, which
// is large and kept once for all its processes: a system that runs the same few programs again and
// again needs 40 bytes for each process. From where in the program a system call came says the
// record's stack (stack_table.h), not the context.
//
// Tasks remember their numbers, so that it is asked about once for each program that a process
// runs. What they remember is as old as they are, and nothing is done about it when the table is
// emptied: beside the number they remember which time between two clear() it is from. When there is
// no memory, the number 0 is returned, which the caller counts. Hooks and hits of probes ask; hits
// may not come while a chain is locked, and they do not, as both keep probes off.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string_view>

#include "store/context.h"
#include "store/intern_table.h"

class ContextTable : public InternTable {
 public:
  // What runs: of a kernel task and an interrupt, nothing but a name.
  struct Program {
    uint8_t build_id_size;  // 0: there is none
    std::array<uint8_t, kMaxBuildId> build_id;
    char name[32];  // NUL-terminated and printable, both
    char path[70];  // a longer one is cut; only what there is of it is stored
  };
  struct Context {
    const Program* program;
    uint32_t thread;  // 0 for a process's first one, and for what is not a process
    uint16_t pid;     // 0 for what is not a process
    ContextKind kind;
  };
  static_assert(kMaxPid <= UINT16_MAX);

  constexpr ContextTable() = default;

  // Makes it ready for use. ENOMEM. No tracer lock held.
  Result<void> open() { return InternTable::open(); }
  // Forgets every context and frees the memory. No one uses the table. No tracer lock held.
  void clear();

  // The number of a context, 0 when it cannot be stored or the table is not open. Texts and build
  // ids are cut, and characters that cannot be printed become '?'. Any context but NMI, interrupts
  // off, after trace_memory_prepare(); takes kInternTable. Bound: two passes over two chains.
  uint32_t intern(ContextKind kind, uint32_t pid, std::string_view name,
                  const TraceProgram& program = {}, uint32_t thread = 0);

  // What a task or an interrupt remembers of a number that it keeps marked; 0 for 0.
  uint64_t remember(uint32_t id) const {
    return id == 0 ? 0 : base_.load(std::memory_order_relaxed) | id;
  }
  // Whether it was remembered since the last clear(), and was not 0.
  bool remembers(uint64_t remembered) const {
    return remembered >= base_.load(std::memory_order_relaxed);
  }
  // The number, if it is so; otherwise 0.
  uint32_t recall(uint64_t remembered) const {
    return remembers(remembered) ? static_cast<uint32_t>(remembered) : 0;
  }
  // nullptr for 0; otherwise it is held by somebody, and valid as long as that. Lock-free.
  const Context* get(uint32_t id) const {
    return id == 0 ? nullptr : reinterpret_cast<const Context*>(at(id).data);
  }
  // "pid 3 sh", "pid 3 thread 17 sh", "irq timer" or "task reaper"; "unknown" for nullptr. As
  // ::format().
  static int format(char* buffer, size_t size, const Context* context);
  // How many there are; exact when no intern() is under way.
  uint32_t size() const { return count(Pass::kReferring); }

 private:
  uint32_t find_or_add(Kind kind, const uint64_t* pairs, size_t size);

  // How often the table was cleared, and once more, in the upper half.
  static constexpr uint64_t kStep = uint64_t{1} << 32;
  std::atomic<uint64_t> base_{kStep};
};
static_assert(sizeof(ContextTable::Context) == 16);
