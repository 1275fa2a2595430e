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
//
// A pair is an entry too, of two words: the number of a kernel stack and that of the user stack
// beside it, of the program that made the system call. So a record needs one number for both, and a
// user stack costs one entry for each kernel stack that it was met with, however many processes
// have it.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "lib/result.h"
#include "store/intern_table.h"
#include "store/page_directory.h"

enum class StackKind : uint8_t { kKernel, kUser, kPair };

class StackTable : public InternTable {
  struct Entry;

 public:
  static constexpr size_t kMaxFrames = 64;
  static constexpr uint64_t kKernelBase = 0xffffffff80000000;

  // What a number stands for: a stack, and the user stack beside it, or 0.
  struct Pair {
    uint32_t stack, user_stack;
    bool operator==(const Pair&) const = default;
  };

  // A stack or a pair that was stored; stays valid until clear().
  class View {
   public:
    View() = default;
    // False for the number 0.
    explicit operator bool() const { return entry_ != nullptr; }
    StackKind kind() const;
    // Of a stack: how many return addresses it has, and which is number `index`, innermost first.
    size_t size() const;
    uint64_t operator[](size_t index) const;
    // Of a pair.
    Pair pair() const { return {entry_->data[0], entry_->data[1]}; }

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
  // The same; in *known comes whether it was stored already.
  uint32_t intern(StackKind kind, const uint64_t* frames, size_t count, bool* known);
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
  // The number of the pair of two stacks that are stored; as intern() and find_packed().
  uint32_t intern_pair(Pair pair);
  [[gnu::always_inline]] uint32_t find_pair(Pair pair) const {
    const uint32_t data[] = {pair.stack, pair.user_stack};
    const uint64_t key = key_of(pair);
    const Entry* const entry = find(head(key).load(std::memory_order_acquire), nullptr, key, data);
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
  // The two of a pair; of what is none, or 0, it and 0.
  Pair split(uint32_t id) const {
    if (id == 0) return {0, 0};
    const Entry& stored = at(id);
    return stored.kind() == StackKind::kPair ? View(&stored).pair() : Pair{id, 0};
  }
  // Numbers are below this.
  uint32_t end() const { return end_.load(std::memory_order_acquire).pages * kPlacesPerPage; }
  // Number of different stacks, not of pairs; exact when no intern() is under way.
  uint32_t size() const { return stacks_.load(std::memory_order_relaxed); }

 private:
  // An id is the entry's page number and its place in the page. Place 0 is never used, so that no
  // id is 0.
  static constexpr uint32_t kGranule = 8;
  static constexpr uint32_t kPlacesPerPage = kPageSize / kGranule;
  const Entry& at(uint32_t id) const {
    const auto* page = static_cast<const char*>(pages_[id / kPlacesPerPage]);
    return *reinterpret_cast<const Entry*>(page + id % kPlacesPerPage * kGranule);
  }

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
    const uint64_t shape = words << kKindBits | static_cast<uint64_t>(kind);
    return ((sum ^ sum >> 29) * 0xbf58476d1ce4e5b9 & ~uint64_t{0xffff}) | shape;
  }
  static uint64_t key_of(Pair pair) {
    return key_of(StackKind::kPair, 2, weight(pair.stack, 0) + weight(pair.user_stack, 1));
  }
  static constexpr unsigned kKindBits = 2;
  static constexpr size_t kMaxWords = 2 * kMaxFrames;
  static_assert(kMaxWords << kKindBits <= 0xffff);
  static constexpr size_t words_of(uint64_t key) { return (key & 0xffff) >> kKindBits; }
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
    StackKind kind() const { return static_cast<StackKind>(key & ((1u << kKindBits) - 1)); }
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

  // Likewise.
  [[gnu::always_inline]] static void copy(uint32_t* to, const uint32_t* from, size_t words) {
    size_t i = 0;
    for (; i + 2 <= words; i += 2) __builtin_memcpy(to + i, from + i, 2 * sizeof(uint32_t));
    if (i < words) to[i] = from[i];
  }

  // What is not in the chain that begins with `first`.
  uint32_t add(Entry* first, uint64_t key, const uint32_t* data);
  uint32_t find_or_add(uint64_t key, const uint32_t* data, bool* known);

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
  [[gnu::always_inline]] inline Reservation reserve(size_t words);
  void give_back(Reservation reservation);

  PageDirectory pages_;
  std::atomic<End> end_{kNothing};
  static_assert(std::atomic<End>::is_always_lock_free);
  std::atomic<uint32_t> stacks_{0};
  // Set by open().
  Head* heads_[kHeadPages] = {};
};
