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
  // A stack of kernel frames that is made ready while it is walked: each frame is packed and hashed at once, into an
  // array of the caller's, which has room for all.
  class KernelFrames {
   public:
    explicit KernelFrames(uint32_t* data) : data_(data), end_(data) {}
    [[gnu::always_inline]] void add(uint64_t frame) {
      const uint64_t offset = frame - kKernelBase;
      outside_ |= offset;
      *end_++ = static_cast<uint32_t>(offset);
      mixed_ = (mixed_ ^ offset) * kFactor;
    }
    [[gnu::always_inline]] bool empty() const { return end_ == data_; }
    // Whether there were more than `count`, which are forgotten.
    [[gnu::always_inline]] bool cut(size_t count) {
      if (end_ - data_ <= static_cast<ptrdiff_t>(count)) return false;
      end_ = data_ + count;
      mixed_ = kSeed;
      for (const uint32_t* at = data_; at != end_; at++) mixed_ = (mixed_ ^ *at) * kFactor;
      return true;
    }

   private:
    friend class StackTable;
    static constexpr uint64_t kSeed = static_cast<uint64_t>(StackKind::kKernel) + 1;
    uint64_t mixed_ = kSeed;
    uint64_t outside_ = 0;  // has high bits if a frame is not the kernel's, which is packed in another way
    uint32_t* const data_;
    uint32_t* end_;
  };
  // The same for such a stack. False, with nothing done, if it is not stored yet.
  [[gnu::always_inline]] bool find(const KernelFrames& frames, uint32_t* id) const {
    if (frames.outside_ > UINT32_MAX) return false;
    const uint32_t hash = hash_end(frames.mixed_);
    const Entry* entry = find(head(hash).load(std::memory_order_acquire), nullptr, StackKind::kKernel, hash,
                              frames.data_, static_cast<size_t>(frames.end_ - frames.data_));
    if (entry) *id = entry->id;
    return entry != nullptr;
  }
  // `id` must have come from intern() since the last clear(), or be 0.
  View view(uint32_t id) const;
  // Number of different stacks; exact when no intern() is under way.
  uint32_t size() const { return stacks_.load(std::memory_order_relaxed); }

 private:
  static constexpr uint64_t kFactor = 0x9e3779b97f4a7c15;
  static uint32_t hash_end(uint64_t hash) {
    hash ^= hash >> 29;
    return static_cast<uint32_t>(hash * 0xbf58476d1ce4e5b9 >> 32);
  }
  static constexpr size_t kMaxWords = 2 * kMaxFrames;
  // Frames as they are stored, and their hash; returns the number of words.
  static size_t pack(StackKind kind, const uint64_t* frames, size_t count, uint32_t* data, uint32_t* hash);
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
  [[gnu::always_inline]] static Entry* find(Entry* first, const Entry* last, StackKind kind, uint32_t hash,
                                            const uint32_t* data, size_t words) {
    for (Entry* entry = first; entry != last; entry = entry->next.load(std::memory_order_acquire)) {
      if (entry->hash == hash && entry->words == words && entry->kind == kind && equal(entry->data, data, words)) {
        return entry;
      }
    }
    return nullptr;
  }
  // Most look-ups end in one full compare; two words at a time it costs a fraction of memcmp.
  [[gnu::always_inline]] static bool equal(const uint32_t* a, const uint32_t* b, size_t words) {
    const auto pair = [](const uint32_t* at) {
      uint64_t two;
      __builtin_memcpy(&two, at, sizeof(two));
      return two;
    };
    size_t i = 0;
    for (; i + 2 <= words; i += 2) {
      if (pair(a + i) != pair(b + i)) return false;
    }
    return i == words || a[i] == b[i];
  }

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
