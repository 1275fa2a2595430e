// Stacks, each kept once and named by a 32-bit number.
//
// An append-only hash table with chains, after the stack depots of KASAN and of Linux' lib/stackdepot.c. Equality is a
// full compare of kind and frames, so two stacks never share a number. A stack that is there already is found without a
// lock: entries never change once they are linked in. A stack that is not is added under the lock. Numbers keep their
// meaning until clear(), which the owner calls when nobody refers to any. When there is no memory, the number 0 is
// returned ("not recorded"), which the caller counts.
//
// Kernel frames are stored as 32-bit offsets from the base of the kernel image, user frames in two words.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "lib/result.h"
#include "page_directory.h"
#include "spinlock.h"

enum class StackKind : uint8_t { kKernel, kUser };

class StackTable {
  struct Entry;

 public:
  static constexpr size_t kMaxFrames = 64;
  static constexpr uint64_t kKernelBase = 0xffffffff80000000;

  // A stack that was stored; stays valid until clear().
  class View {
   public:
    View() = default;
    // False for the number 0.
    explicit operator bool() const { return entry_ != nullptr; }
    StackKind kind() const;
    size_t size() const;
    // The return address number `index`, innermost first.
    uint64_t operator[](size_t index) const;

   private:
    friend class StackTable;
    explicit View(const Entry* entry) : entry_(entry) {}
    const Entry* entry_ = nullptr;
  };

  constexpr StackTable() = default;
  StackTable(const StackTable&) = delete;
  StackTable& operator=(const StackTable&) = delete;

  // Makes it ready for use. ENOMEM. No tracer lock held.
  Result<void> open();
  // Forgets every stack and frees the memory. No one uses the table. No tracer lock held.
  void clear();

  // The number of the stack with these `count` return addresses (at most kMaxFrames; what is more is cut off),
  // innermost first; 0 when it cannot be stored. Any context but NMI, after trace_memory_prepare(); takes kStackTable.
  // Bound: two passes over one chain.
  uint32_t intern(StackKind kind, const uint64_t* frames, size_t count);
  // Lock-free. `id` must have come from intern() since the last clear(), or be 0.
  View view(uint32_t id) const;
  // Number of different stacks.
  uint32_t size() const { return stacks_.load(std::memory_order_relaxed); }

 private:
  static constexpr size_t kMaxWords = 2 * kMaxFrames;
  static constexpr uint32_t kHeadPages = 8;
  static constexpr uint32_t kHeadsPerPage = kPageSize / sizeof(void*);
  static constexpr uint32_t kHeads = kHeadPages * kHeadsPerPage;

  struct Entry {
    std::atomic<Entry*> next;
    uint32_t hash;
    uint32_t id;
    uint16_t words;
    StackKind kind;
    uint32_t data[];
  };
  using Head = std::atomic<Entry*>;

  Head& head(uint32_t hash) const {
    const uint32_t index = hash % kHeads;
    return heads_[index / kHeadsPerPage][index % kHeadsPerPage];
  }
  static Entry* find(Entry* first, StackKind kind, uint32_t hash, const uint32_t* data, size_t words);
  Entry* make_entry(size_t words) REQUIRES(lock_);

  Spinlock lock_{LockRank::kStackTable};
  // Guarded by lock_ for writing.
  PageDirectory pages_;
  size_t page_offset_ = kPageSize;  // where the newest page is free
  std::atomic<uint32_t> stacks_{0};
  // Set by open().
  Head* heads_[kHeadPages] = {};
};
