// Stacks, each kept once and named by a 32-bit number (intern_table.h).
//
// Kernel frames are stored as the lower half of the address, user frames in two words.
//
// A pair is an entry of two words: the number of a kernel stack and the number of the user stack of
// the program that made the system call. So a record needs one number for both, and a user stack
// costs one entry for each kernel stack that it occurs with, regardless of the number of processes.
// A pair keeps both stacks.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "lib/result.h"
#include "store/intern_table.h"

// Beside the number of a stack or pair, in a word: there were more frames than are recorded.
inline constexpr uint64_t kStackTruncated = uint64_t{1} << 32;

enum class StackKind : uint8_t { kKernel, kUser, kPair };

class StackTable : public InternTable {
 public:
  static constexpr size_t kMaxFrames = 64;
  static constexpr uint64_t kKernelBase = 0xffffffff80000000;

  // The stacks of a number: a stack, and its user stack or 0.
  struct Pair {
    uint32_t stack, user_stack;
    bool operator==(const Pair&) const = default;
  };

  // A stored stack or pair; valid as long as its number is.
  class View {
   public:
    View() = default;
    // False for the number 0.
    explicit operator bool() const { return entry_ != nullptr; }
    StackKind kind() const { return static_cast<StackKind>(kind_of(entry_->key)); }
    // For a stack: the number of return addresses, and the one with this index, innermost first.
    size_t size() const;
    uint64_t operator[](size_t index) const;
    // For a pair.
    Pair pair() const { return {entry_->data[0], entry_->data[1]}; }

   private:
    friend class StackTable;
    explicit View(const Entry* entry) : entry_(entry) {}
    const Entry* entry_ = nullptr;
  };

  constexpr StackTable() = default;

  // Makes the table ready for use. ENOMEM. No tracer lock held.
  Result<void> open() { return InternTable::open(); }
  // Forgets every stack and frees the memory. No one uses the table. No tracer lock held.
  void clear() { InternTable::clear(); }

  // The number of the stack with these `count` return addresses (cut to kMaxFrames), innermost
  // first; 0 if it cannot be stored. Any context but NMI, interrupts off, after
  // trace_memory_prepare(); takes kInternTable if a look-up without a lock fails. Bound: two passes
  // over a chain.
  uint32_t intern(StackKind kind, const uint64_t* frames, size_t count);
  // The same; *known becomes true if the stack was stored already.
  uint32_t intern(StackKind kind, const uint64_t* frames, size_t count, bool* known);
  // The same for packed kernel frames; `sum` is the sum of their weights.
  uint32_t intern_packed(std::span<const uint32_t> frames, uint64_t sum);
  // The same if a look-up without a lock finds it; otherwise 0.
  [[gnu::always_inline]] uint32_t find_packed(std::span<const uint32_t> frames,
                                              uint64_t sum) const {
    return find(key_of(Kind::kKernelStack, frames.size(), mixed(sum)), frames.data());
  }
  // The number of the pair of two stored stacks; as intern() and find_packed().
  uint32_t intern_pair(Pair pair);
  [[gnu::always_inline]] uint32_t find_pair(Pair pair) const {
    const uint32_t data[] = {pair.stack, pair.user_stack};
    return find(key_of(pair), data);
  }
  // True if a kernel frame can be packed into 32 bits: sign extension restores the others.
  static constexpr bool packs(uint64_t frame) {
    return frame == unpacked(static_cast<uint32_t>(frame));
  }
  static constexpr uint64_t unpacked(uint32_t frame) {
    return static_cast<uint64_t>(int64_t{static_cast<int32_t>(frame)});
  }
  // Multilinear hashing: the hash is a sum of weights, one for each frame, so that a change of a
  // few frames changes the sum by their weights only.
  static uint64_t weight(uint64_t frame, size_t index) { return frame * kFactors[index]; }

  // `id` is 0, or a number from intern() that somebody holds.
  View view(uint32_t id) const { return id == 0 ? View() : View(&at(id)); }
  // The two stacks of a pair; for another number, itself and 0.
  Pair split(uint32_t id) const {
    const View stored = view(id);
    return stored && stored.kind() == StackKind::kPair ? stored.pair() : Pair{id, 0};
  }
  // The number of different stacks, without pairs; exact when no intern() is under way.
  uint32_t size() const { return count(Pass::kReferred); }

 private:
  // Independent odd numbers (splitmix64).
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
  static_assert(2 * kMaxFrames <= kMaxWords);
  static_assert(static_cast<uint8_t>(StackKind::kUser) == static_cast<uint8_t>(Kind::kUserStack) &&
                static_cast<uint8_t>(StackKind::kPair) == static_cast<uint8_t>(Kind::kPair));
  static uint64_t key_of(Pair pair) {
    return InternTable::key_of(Kind::kPair, 2, mixed(pair.stack | uint64_t{pair.user_stack} << 32));
  }
  using InternTable::key_of;
};
