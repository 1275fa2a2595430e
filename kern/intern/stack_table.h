// A table that stores each stack once, and names it by a 32-bit number (intern/table_impl.h).
//
// A kernel frame is stored in one 32-bit word, the lower half of its address. A user frame is
// stored in two words.
//
// A pair is an entry of two words: the number of a kernel stack and the number of the user stack of
// the program that made the system call. So a record needs only one number for both stacks. Each
// combination of a kernel stack and a user stack costs one entry, in however many processes it
// occurs. While the sweeper keeps a pair, it also keeps the pair's two stacks.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/task_head.h"
#include "intern/ids.h"
#include "intern/table_impl.h"
#include "lib/result.h"

// A flag in a 64-bit word whose lower half is the number of a stack or pair. The flag says that the
// stack has more frames than are recorded.
inline constexpr uint64_t kStackTruncated = uint64_t{1} << 32;
constexpr StackId stack_in(uint64_t word) {
  return StackId{static_cast<uint32_t>(word)};
}
constexpr StackId stack_in(TraceCaller caller) {
  return stack_in(static_cast<uint64_t>(caller));
}
constexpr bool is_truncated(TraceCaller caller) {
  return (static_cast<uint64_t>(caller) & kStackTruncated) != 0;
}
constexpr TraceCaller caller_with(StackId stack, bool truncated = false) {
  return TraceCaller{static_cast<uint64_t>(TraceCaller::kUnknown) |
                     (truncated ? kStackTruncated : 0) | number_of(stack)};
}

enum class StackKind : uint8_t { kKernel, kUser, kPair };

class StackTable : public InternTable {
 public:
  static constexpr size_t kMaxFrames = 64;
  static constexpr uint64_t kKernelBase = 0xffffffff80000000;

  // The stacks that a number names: one stack (user_stack is kNone), or a kernel stack and a user
  // stack.
  struct Pair {
    StackId stack, user_stack;
    bool operator==(const Pair&) const = default;
  };

  // A stored stack or pair; valid as long as its number is valid.
  class View {
   public:
    View() = default;
    // False for StackId::kNone.
    explicit operator bool() const { return entry_ != nullptr; }
    StackKind kind() const { return static_cast<StackKind>(kind_of(entry_->key)); }
    // Call these two functions only for a stack, not for a pair. size() is the number of return
    // addresses. Index 0 is the return address of the innermost frame.
    size_t size() const;
    uint64_t operator[](size_t index) const;
    // The two stacks of a pair.
    Pair pair() const { return {StackId{entry_->data[0]}, StackId{entry_->data[1]}}; }

   private:
    friend class StackTable;
    explicit View(const Entry* entry) : entry_(entry) {}
    const Entry* entry_ = nullptr;
  };

  constexpr StackTable() = default;

  // Makes the table ready for use. ENOMEM. Called with no tracer lock held.
  Result<void> open() { return InternTable::open(); }
  // Forgets every stack and frees the memory. Called when nobody uses the table, with no tracer
  // lock held.
  void clear() { InternTable::clear(); }

  // Finds or adds the stack with these return addresses, innermost first, and returns its number;
  // kNone if it cannot be stored. Addresses beyond kMaxFrames are ignored. Called in any context
  // but NMI, with interrupts off, after trace_memory_prepare(). Takes kInternTable if a look-up
  // without a lock fails. Bound: two passes over a chain.
  StackId intern(StackKind kind, const uint64_t* frames, size_t count);
  // intern() which also sets *known: true if the table had the stack before.
  StackId intern(StackKind kind, const uint64_t* frames, size_t count, bool* known);
  // intern() for packed kernel frames (packs()). `sum` is the sum of their weights (weight()).
  StackId intern_packed(std::span<const uint32_t> frames, uint64_t sum);
  // The number of a stack of packed kernel frames if a look-up without a lock finds it; otherwise
  // kNone.
  [[gnu::always_inline]] StackId find_packed(std::span<const uint32_t> frames, uint64_t sum) const {
    return StackId{find(key_of(Kind::kKernelStack, frames.size(), mixed(sum)), frames.data())};
  }
  // Finds or adds the pair of two stored stacks and returns its number. Context, errors and bound
  // as for intern().
  StackId intern_pair(Pair pair);
  // The number of a pair if a look-up without a lock finds it; otherwise kNone.
  [[gnu::always_inline]] StackId find_pair(Pair pair) const {
    const uint32_t data[] = {number_of(pair.stack), number_of(pair.user_stack)};
    return StackId{find(key_of(pair), data)};
  }
  // True if a kernel return address can be packed into 32 bits: sign extension restores the upper
  // half.
  static constexpr bool packs(uint64_t frame) {
    return frame == unpacked(static_cast<uint32_t>(frame));
  }
  static constexpr uint64_t unpacked(uint32_t frame) {
    return static_cast<uint64_t>(int64_t{static_cast<int32_t>(frame)});
  }
  // The weight of a frame. The hash is made from the sum of the weights of all frames (multilinear
  // hashing). So if a few frames change, only their old weights are subtracted and their new
  // weights added.
  static uint64_t weight(uint64_t frame, size_t index) { return frame * kFactors[index]; }

  // The stack or pair with this number. `id` is kNone, or a number from intern() that a holder has.
  View view(StackId id) const { return id == StackId::kNone ? View() : View(&at(number_of(id))); }
  // Returns the two stacks of a pair. If `id` names a single stack, returns `id` and kNone.
  Pair split(StackId id) const {
    const View stored = view(id);
    return stored && stored.kind() == StackKind::kPair ? stored.pair() : Pair{id, StackId::kNone};
  }
  // Keeps the stack or pair in this sweep (InternTable::mark()). Does nothing for kNone.
  void mark(StackId id) { InternTable::mark(number_of(id)); }
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
    return InternTable::key_of(
        Kind::kPair, 2, mixed(number_of(pair.stack) | uint64_t{number_of(pair.user_stack)} << 32));
  }
  using InternTable::key_of;
};
