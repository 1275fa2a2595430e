// A table that stores each stack once, and names it by a 32-bit number (intern/table_impl.h).
//
// A stored kernel stack has a 32-bit word for each return address, the lower half of the address,
// and a word 0 after the last one. A stored user stack has two words for each address, and two
// words 0 after the last one. A comparison that runs along the stored words needs no other end.
//
// A pair is an entry of two words: the number of a kernel stack and the number of the user stack of
// the program that made the system call. Probe sessions count pairs; records of allocations have
// both numbers instead. While the sweeper keeps a pair, it also keeps the pair's two stacks.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/task_head.h"
#include "intern/ids.h"
#include "intern/table_impl.h"
#include "lib/result.h"

// A flag in a 64-bit word that has the number of a stack. The flag says that the stack has more
// frames than are recorded.
inline constexpr uint64_t kStackTruncated = uint64_t{1} << 48;
constexpr StackId stack_in(uint64_t word) {
  return StackId{static_cast<uint32_t>(word)};
}
// A caller has the number of its user stack above the bits of a context's number. So the words of a
// context and of a caller together have both numbers.
constexpr StackId stack_in(TraceCaller caller) {
  return StackId{static_cast<uint32_t>(static_cast<uint64_t>(caller) >> kNumberBits) &
                 ((1u << kNumberBits) - 1)};
}
constexpr bool is_truncated(TraceCaller caller) {
  return (static_cast<uint64_t>(caller) & kStackTruncated) != 0;
}
// False for kUnknown and kLost.
constexpr bool is_known(TraceCaller caller) {
  return static_cast<int64_t>(caller) >= 0;
}
constexpr TraceCaller caller_with(StackId stack, bool truncated = false) {
  return TraceCaller{uint64_t{number_of(stack)} << kNumberBits | (truncated ? kStackTruncated : 0)};
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

  // A number of return addresses of a kernel stack, as its key has it.
  class Depth {
   public:
    constexpr explicit Depth(uint32_t frames = 0) : shape_(shape_of_stack(frames)) {}
    constexpr uint32_t frames() const { return (shape_ >> kKindBits) - 1; }
    constexpr uint32_t shape() const { return shape_; }  // another for each depth

   private:
    friend class StackTable;
    static constexpr uint32_t shape_of_stack(uint32_t frames) {
      return (frames + 1) << kKindBits | static_cast<uint32_t>(Kind::kKernelStack);
    }
    uint32_t shape_;
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
    size_t size() const {
      return kind() == StackKind::kKernel ? entry_->words() - 1 : entry_->words() / 2 - 1;
    }
    uint64_t operator[](size_t index) const;
    StackId id() const { return StackId{id_of(*entry_)}; }
    // For a kernel stack: the packed return addresses, and 0 after them.
    const uint32_t* packed() const { return entry_->data; }
    // For a kernel stack: true if it has `depth` return addresses, or at most so many.
    bool has(Depth depth) const { return shape_of(entry_->key) == depth.shape_; }
    bool fits(const Depth& depth) const { return shape_of(entry_->key) <= depth.shape_; }
    // For a user stack: the stored words, which are its addresses, and 0 after them; the number of
    // addresses.
    const uint64_t* addresses() const { return reinterpret_cast<const uint64_t*>(entry_->data); }
    size_t user_size() const { return entry_->words() / 2 - 1; }
    // The two stacks of a pair.
    Pair pair() const { return {StackId{entry_->data[0]}, StackId{entry_->data[1]}}; }

    // A view of a stack that is in no table, and that no stack equals.
    static constexpr View nothing() { return View(&no_entry); }

   private:
    friend class StackTable;
    constexpr explicit View(const Entry* entry) : entry_(entry) {}
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
  // A kernel stack as the table stores it: the packed return addresses (packs()), and zeros after
  // them, two at least. `hash` is made with hash_with().
  struct Packed {
    const uint32_t* frames;
    uint32_t count;
    uint64_t hash;
  };
  // intern() for a packed kernel stack; an empty view if it cannot be stored.
  [[gnu::always_inline]] View intern_packed(const Packed& stack) {
    const uint64_t key = key_of(stack);
    if (const Entry* const entry = find_entry(key, stack.frames)) [[likely]]
      return View(entry);
    return view(StackId{add(key, stack.frames).id});
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
  // The hash of a stack begins with 0; each return address is added in turn, packed for a kernel
  // stack.
  [[gnu::always_inline]] static uint64_t hash_with(uint64_t hash, uint64_t frame) {
    return (hash + frame) * 0x5f356495;
  }

  // The stack or pair with this number. `id` is kNone, or a number from intern() that a user has.
  View view(StackId id) const { return id == StackId::kNone ? View() : View(&at(number_of(id))); }
  // Returns the two stacks of a pair. If `id` names a single stack, returns `id` and kNone.
  Pair split(StackId id) const {
    const View stored = view(id);
    return stored && stored.kind() == StackKind::kPair ? stored.pair() : Pair{id, StackId::kNone};
  }
  // Keeps the stack or pair in this sweep (InternTable::retain()). Does nothing for kNone.
  void retain(StackId id) { InternTable::retain(number_of(id)); }
  // The number of different stacks, without pairs; exact when no intern() is under way.
  uint32_t size() const { return count(Pass::kReferred); }

 private:
  StackId intern_user(const uint64_t* frames, size_t count);
  StackId intern_kernel(const uint64_t* frames, size_t count);
  static_assert(2 * (kMaxFrames + 1) <= kMaxWords);
  static_assert(static_cast<uint8_t>(StackKind::kUser) == static_cast<uint8_t>(Kind::kUserStack) &&
                static_cast<uint8_t>(StackKind::kPair) == static_cast<uint8_t>(Kind::kPair));
  static uint64_t key_of(Pair pair) {
    return InternTable::key_of(
        Kind::kPair, 2, mixed(number_of(pair.stack) | uint64_t{number_of(pair.user_stack)} << 32));
  }
  static uint64_t key_of(const Packed& stack) {
    return InternTable::key_of(Kind::kKernelStack, stack.count + 1, stack.hash);
  }
  using InternTable::key_of;
};
using StackDepth = StackTable::Depth;
