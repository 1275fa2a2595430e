// Contexts, each kept once and named by a 32-bit number: who allocated.
//
// As the stack table, but small and with a lock for each look-up: owners remember their numbers, so that it is asked
// about once for each process. A number is never given twice, also not after clear(): what was remembered from before
// is known to be stale by its being lower than base. When no numbers are left (after four billion), or no memory, the
// number 0 is returned, which the caller counts.
#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>

#include "lib/result.h"
#include "page_directory.h"
#include "spinlock.h"
#include "trace.h"

class ContextTable {
 public:
  struct Context {
    Context* next;
    uint32_t hash;
    uint32_t id;
    uint32_t pid;
    ContextKind kind;
    char name[43];  // NUL-terminated, printable
  };

  constexpr ContextTable() = default;
  ContextTable(const ContextTable&) = delete;
  ContextTable& operator=(const ContextTable&) = delete;

  // Makes it ready for use. ENOMEM. No tracer lock held.
  Result<void> open();
  // Forgets every context and frees the memory. No one uses the table. No tracer lock held.
  void clear();
  bool is_open() const { return open_.load(std::memory_order_acquire); }

  // The number of a context, 0 when it cannot be stored or the table is not open. Names are cut, and characters that
  // cannot be printed become '?'. Any context but NMI, after trace_memory_prepare(); takes kContextTable. Bound: one
  // chain.
  uint32_t intern(ContextKind kind, uint32_t pid, std::string_view name);
  // Whether intern() has returned it since the last clear().
  bool valid(uint32_t id) const { return id >= base_.load(std::memory_order_relaxed); }
  // nullptr for 0. Lock-free.
  const Context* get(uint32_t id) const;
  // Ids are base() … base() + size() - 1.
  uint32_t base() const { return base_.load(std::memory_order_relaxed); }
  uint32_t size() const { return size_.load(std::memory_order_acquire); }

 private:
  static constexpr uint32_t kPerPage = kPageSize / sizeof(Context);
  static constexpr uint32_t kHeadPages = 1;
  static constexpr uint32_t kHeadsPerPage = kPageSize / sizeof(void*);
  static constexpr uint32_t kHeads = kHeadPages * kHeadsPerPage;

  Context*& head(uint32_t hash) {
    const uint32_t index = hash % kHeads;
    return heads_[index / kHeadsPerPage][index % kHeadsPerPage];
  }

  Spinlock lock_{LockRank::kContextTable};
  // Guarded by lock_ for writing.
  PageDirectory pages_;
  std::atomic<uint32_t> base_{1};
  std::atomic<uint32_t> size_{0};
  Context** heads_[kHeadPages] = {};
  std::atomic<bool> open_{false};
};
static_assert(sizeof(ContextTable::Context) == 64);
