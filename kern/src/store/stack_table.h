// Stacks, each kept once and named by a 32-bit number.
//
// An append-only hash table with chains, after the stack depots of KASAN and of Linux'
// lib/stackdepot.c. Equality is a full compare of kind and frames, so two stacks never share a
// number. Numbers keep their meaning until clear(), which the owner calls when nobody refers to
// any. When there is no memory, the number 0 is returned ("not recorded"), which the caller counts.
//
// No lock is taken, neither to find a stack nor to add one, and a CPU that is stopped at any point
// holds up no other:
//   1. The chain is searched. Entries never change once they are linked in.
//   2. A place is reserved by moving `end_`, a page number and an offset in one word, by
//   compare-and-swap. Whoever needs
//      the next page first puts it into the directory, also by compare-and-swap.
//   3. The entry is filled in and becomes the first of its chain by compare-and-swap of the head.
//   When that fails others
//      have added entries before what was searched: these are searched too, and it is tried again.
//      All entries of a chain have thus been compared with what is added to it, and a stack never
//      has two numbers.
//   4. If another CPU has added the same stack meanwhile, that is the answer, and the place is
//   given back if it is still
//      the last one. If not, it is lost until clear(): at most one place for each race that another
//      CPU has won.
//
// Kernel frames are stored as the lower half of the address, user frames in two words.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "lib/result.h"
#include "store/page_directory.h"

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

  // The number of the stack with these `count` return addresses (at most kMaxFrames; what is more
  // is cut off), innermost first; 0 when it cannot be stored. Any context but NMI, after
  // trace_memory_prepare(), no tracer lock held. Lock-free. Bound: one pass over a chain and one
  // over what others add to it meanwhile.
  uint32_t intern(StackKind kind, const uint64_t* frames, size_t count);
  // The same for kernel frames that are packed; `sum` is that of their weights.
  uint32_t intern_packed(std::span<const uint32_t> frames, uint64_t sum);
  // The same if it is stored already; otherwise 0.
  [[gnu::always_inline]] uint32_t find_packed(std::span<const uint32_t> frames,
                                              uint64_t sum) const {
    const uint64_t key = key_of(StackKind::kKernel, frames.size(), sum);
    const Entry* const entry =
        find(head(key).load(std::memory_order_acquire), nullptr, key, frames.data());
    return entry ? entry->id : 0;
  }
  // Whether a kernel frame can be packed into 32 bits: those that are left out follow from its
  // sign.
  static constexpr bool packs(uint64_t frame) {
    return frame == unpacked(static_cast<uint32_t>(frame));
  }
  static constexpr uint64_t unpacked(uint32_t frame) {
    return static_cast<uint64_t>(int64_t{static_cast<int32_t>(frame)});
  }
  // Multilinear hashing: each frame has a weight of its own, so that who knows a stack that differs
  // in few frames need not add all of them up again.
  static uint64_t weight(uint64_t frame, size_t index) { return frame * kFactors[index]; }

  // `id` must have come from intern() since the last clear(), or be 0.
  View view(uint32_t id) const;
  // Number of different stacks; exact when no intern() is under way.
  uint32_t size() const { return stacks_.load(std::memory_order_relaxed); }

 private:
  // Odd numbers that have nothing to do with each other (splitmix64).
  static constexpr std::array<uint64_t, kMaxFrames> kFactors = [] {
    std::array<uint64_t, kMaxFrames> factors;
    uint64_t state = 0;
    for (uint64_t& factor : factors) {
      uint64_t z = state += 0x9e3779b97f4a7c15;
      z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
      z = (z ^ z >> 27) * 0x94d049bb133111eb;
      factor = z | 1;
    }
    return factors;
  }();
  // What is compared first: hash, words and kind.
  static uint64_t key_of(StackKind kind, size_t words, uint64_t sum) {
    const uint64_t shape = words << 1 | static_cast<uint64_t>(kind);
    return ((sum ^ sum >> 29) * 0xbf58476d1ce4e5b9 & ~uint64_t{0xffff}) | shape;
  }
  static constexpr size_t kMaxWords = 2 * kMaxFrames;
  static constexpr size_t words_of(uint64_t key) { return (key & 0xffff) >> 1; }
  // Frames as they are stored; returns their key.
  static uint64_t pack(StackKind kind, const uint64_t* frames, size_t count, uint32_t* data);
  static constexpr uint32_t kHeadPages = 4;
  static constexpr uint32_t kHeadsPerPage = kPageSize / sizeof(void*);
  static constexpr uint32_t kHeads = kHeadPages * kHeadsPerPage;

  struct Entry {
    std::atomic<Entry*> next;
    uint64_t key;
    uint32_t id;
    uint32_t data[];

    size_t words() const { return words_of(key); }
    StackKind kind() const { return static_cast<StackKind>(key & 1); }
  };
  using Head = std::atomic<Entry*>;

  Head& head(uint64_t key) const {
    const uint32_t index = key >> 32 & (kHeads - 1);
    return heads_[index / kHeadsPerPage][index % kHeadsPerPage];
  }
  // Between `first` and `last`, which is not looked at.
  [[gnu::always_inline]] static Entry* find(Entry* first, const Entry* last, uint64_t key,
                                            const uint32_t* data) {
    for (Entry* entry = first; entry != last; entry = entry->next.load(std::memory_order_acquire)) {
      if (entry->key == key && equal(entry->data, data, words_of(key))) return entry;
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

  // What is not in the chain that begins with `first`.
  uint32_t add(Entry* first, uint64_t key, const uint32_t* data);
  uint32_t find_or_add(uint64_t key, const uint32_t* data);

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
