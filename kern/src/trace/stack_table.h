// Stacks, each kept once and named by a 32-bit number.
//
// An append-only hash table with chains, after the stack depots of KASAN and of Linux' lib/stackdepot.c. Equality is a
// full compare of kind and frames, so two stacks never share a number. Numbers keep their meaning until clear(), which the
// owner calls when nobody refers to any. When there is no memory, the number 0 is returned ("not recorded"), which the
// caller counts.
//
// No lock is taken, neither to find a stack nor to add one, and a CPU that is stopped at any point holds up no other:
//   1. The chain is searched. Entries never change once they are linked in.
//   2. A place is reserved by moving `end_`, a page number and an offset in one word, by compare-and-swap. Whoever needs
//      the next page first puts it into the directory, also by compare-and-swap.
//   3. The entry is filled in and becomes the first of its chain by compare-and-swap of the head. When that fails others
//      have added entries before what was searched: these are searched too, and it is tried again. All entries of a chain
//      have thus been compared with what is added to it, and a stack never has two numbers.
//   4. If another CPU has added the same stack meanwhile, that is the answer, and the place is given back if it is still
//      the last one. If not, it is lost until clear(): at most one place for each race that another CPU has won.
//
// Kernel frames are stored as 32-bit offsets from the base of the kernel image, user frames in two words.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "lib/result.h"
#include "page_directory.h"

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
  // innermost first; 0 when it cannot be stored. Any context but NMI, after trace_memory_prepare(), no tracer lock held.
  // Lock-free. Bound: one pass over a chain and one over what others add to it meanwhile.
  uint32_t intern(StackKind kind, const uint64_t* frames, size_t count);
  // `id` must have come from intern() since the last clear(), or be 0.
  View view(uint32_t id) const;
  // Number of different stacks; exact when no intern() is under way.
  uint32_t size() const { return stacks_.load(std::memory_order_relaxed); }

 private:
  static constexpr size_t kMaxWords = 2 * kMaxFrames;
  static constexpr uint32_t kHeadPages = 4;
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
  // Between `first` and `last`, which is not looked at.
  static Entry* find(Entry* first, const Entry* last, StackKind kind, uint32_t hash, const uint32_t* data,
                     size_t words);

  // How far pages are used: `pages` have been begun, and the last of them is free from `offset` on.
  struct End {
    uint32_t pages;
    uint32_t offset;
  };
  static constexpr End kNothing = {0, kPageSize};

  // What a reservation has changed.
  struct Reservation {
    Entry* entry;  // nullptr: no memory
    End before, after;
  };
  Reservation reserve(size_t words);
  void give_back(Reservation reservation);

  PageDirectory pages_;
  std::atomic<End> end_{kNothing};
  static_assert(std::atomic<End>::is_always_lock_free);
  std::atomic<uint32_t> stacks_{0};
  // Set by open().
  Head* heads_[kHeadPages] = {};
};
