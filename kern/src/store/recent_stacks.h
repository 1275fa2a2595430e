// Stacks that a CPU has recorded lately, so that the next allocation from the same place need not
// have its stack hashed.
//
// Each CPU has a table, in sets of four entries. An entry holds, for each frame of a walk,
// the frame pointer and the return address, and the number of the stack. It is valid for an
// allocation if both are found again, for each frame, on the stack as it is now: the walk is
// repeated by comparing, six instructions a frame (the last one may lead elsewhere than it did, if
// that is as good), and its result is therefore the same. A shorter key would not do: stacks that
// differ only far up have the same return addresses and frame pointers below.
//
// Each task has a stack of its own, and tasks that do the same leave the same frames at the same
// distance from its top. So an entry is found by where in its page the first frame lies, which is
// the same on all stacks, and move() takes it along from one to the other: every frame pointer is
// moved as far as the top, which is an instruction a frame, and then compared as any other.
//
// A stack that differs from the entry in return addresses alone, as do those of one function that
// is called from several places, is taken over by readdress() while it is compared: what the stack
// table hashes by is a sum over the frames, of which only what has changed is added anew.
// Everything else does refresh(). It, too, changes what differs: where a frame lies as it lay need
// not be asked whether it lies on the stack. An entry that was never used is a stack in which
// everything differs.
//
// Only frames on the current task's own stack are kept, with return addresses that can be packed.
// An entry names the top of the stack that it was made on; as long as that is the CPU's, all its
// frame pointers lie on that stack and may be followed without looking at the bounds.
//
// What a record names is a pair, of this stack and the user stack of who called (stack_table.h). An
// entry remembers the last caller, as a task does (current_context.h), and the number of the pair,
// so that for the same caller again, in whatever process, both are known by one compare.
//
// An entry is used and filled by its CPU alone, with interrupts off. The pages are trace memory: of
// each CPU one, with the table, when the first trace begins; then one after the other as entries
// are wanted, as long as all CPUs' would be a small part of the limit; from then on places of the
// table share the entries that there are. They are given back with the stack table.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "arch/x86_64/context.h"
#include "core/cpu.h"
#include "store/stack_scope.h"
#include "store/stack_table.h"

// Where recent_stacks.S begins for a stack with so many frames before the last one.
extern "C" const void* const recent_stack_compare[64];

class RecentStack {
 public:
  static constexpr uint32_t kMaxFrames = 63;
  struct Frame {
    uint64_t address;  // of return
    uint64_t next;     // frame pointer
  };

  constexpr RecentStack() = default;

  // Whether it is of a stack that begins at the frame and has this top, and may have changed.
  [[gnu::always_inline]] bool is_at(uint64_t frame_pointer, StackScope scope, uint64_t top) const {
    return is_at(frame_pointer, top + scope.word());
  }
  // The same by the sum of the top and the scope's word.
  [[gnu::always_inline]] bool is_at(uint64_t frame_pointer, uint64_t key) const {
    return first_ == frame_pointer && key_ == key;
  }
  // Of one that is_at(): nullptr if a walk would find now what it found then; if not, a frame
  // before which it does.
  const Frame* differs(uint64_t top) const {
    return differs_below([top] { return top; });
  }
  // The same; top() is called if it must be known.
  template <typename Top>
  [[gnu::always_inline]] const Frame* differs_below(Top top) const {
    // Loaded first: where a sanitizer checks loads that is a call, which changes registers.
    const auto* first = reinterpret_cast<const uint64_t*>(first_);
    const Frame* const behind = last_;
    register const uint64_t* memory asm("r10") = first;
    register const Frame* const last asm("r9") = behind;
    register uint64_t left asm("r11");
    bool same;
    asm volatile(
#ifdef STELE_HOST
        "leaq -128(%%rsp), %%rsp\n"  // the red zone
        "call *%[compare]\n"
        "leaq 128(%%rsp), %%rsp"
#else
        "call *%[compare]"
#endif
        : "=@cce"(same), "+c"(first), "+r"(memory), "=r"(left)
        : "r"(last), [compare] "m"(compare_)
        : "memory");
    if (!same) [[unlikely]]
      return last - left;
    return memory[0] == last->next || ends(memory, top()) ? nullptr : last;
  }
  // Whether a walk from `frame_pointer` would find now what it found then.
  [[gnu::always_inline]] bool matches(uint64_t frame_pointer, StackScope scope,
                                      uint64_t top) const {
    return is_at(frame_pointer, scope, top) && !differs(top);
  }
  const void* first_frame() const {
    return reinterpret_cast<const void*>(first_);
  }
  // Whether nothing matches it.
  bool is_free() const {
    return key_ == 0;
  }
  // Whether it is of a stack that begins there.
  bool begins_at(uint64_t frame_pointer) const {
    return first_ == frame_pointer;
  }
  // What it found: the number of the stack, with kStackTruncated if that is not all of it.
  uint64_t stack() const {
    return stack_;
  }

  // Whether it knows what a record names of this stack and a caller (TaskHead::trace_call); and
  // what that is: the number of a pair, or of the stack alone if there is no caller; with
  // kStackTruncated if it is not all of either.
  bool knows(uint64_t caller) const {
    return caller_ == caller;
  }
  uint64_t named() const {
    return named_;
  }
  // What is recorded has no user stack.
  void unpair() {
    caller_ = 0;
    named_ = stack_;
  }
  // `pair` is the number for this caller, which has a user stack.
  void pair(uint64_t caller, uint32_t pair) {
    caller_ = caller;
    named_ = ((stack_ | caller) & kStackTruncated) | pair;
  }

  // Whether it is of a stack that begins at the frame, maybe of another task: with the same return
  // address, as far from its top. Then it is moved to this stack, and what it holds is to be
  // compared as always.
  [[gnu::always_inline]] inline bool move(uint64_t frame_pointer, StackScope scope, uint64_t top);
  // Takes over return addresses that have changed, if that is all that has: whether it is. Nothing
  // matches before name(). `from`: what differs() has returned, or if it was not asked, nullptr.
  [[gnu::always_inline]] inline bool readdress(const Frame* from, uint64_t frame_pointer,
                                               StackScope scope, uint64_t top);
  // Walks, and keeps what it finds. False, with nothing kept, if that does not lie on the task's
  // own stack, cannot be packed or is too much. skipped(address) tells the frames that a scope may
  // skip. Nothing matches before name().
  template <typename Skipped>
  [[gnu::always_inline]] inline bool refresh(uint64_t frame_pointer, StackScope scope, uint64_t top,
                                             Skipped skipped);
  // What was found of what is recorded, and its weights' sum.
  std::span<const uint32_t> frames() const {
    return {packed_ + skip_, recorded_};
  }
  uint64_t sum() const {
    return sum_;
  }
  // Whether there was more.
  bool truncated() const {
    return stack_ >= kStackTruncated;
  }
  // The number of what was found. Of its pairs none is known.
  void name(uint32_t id) {
    stack_ = (stack_ & kStackTruncated) | id;
    unpair();
    key_ = top_ + scope_.word();
  }

 private:
  // Why the walk ended, when that is not where the last frame's pointer leads now as it did then.
  enum class End : uint32_t {
    kAnywhere,  // that pointer does not matter: nothing more was wanted, or it is that of a frame
                // without a return address
    kOutside,   // it leads out of the stack
  };

  static bool outside(uint64_t next, uint64_t above, uint64_t top) {
    return next < above || next + 16 > top || (next & 7) != 0;
  }
  // The last frame leads elsewhere than it did.
  bool ends(const uint64_t* last, uint64_t top) const {
    return end_ == End::kAnywhere || outside(last[0], reinterpret_cast<uint64_t>(last) + 16, top);
  }

  // Whether a frame that has now this address is skipped as it was. If that is not known yet, it is
  // now.
  template <typename Skipped>
  [[gnu::always_inline]] bool skips_as_before(uint32_t index, uint64_t address, Skipped skipped) {
    if (index > skip_ || !scope_.skips_allocator() || skipped(address) == (index < skip_))
        [[likely]]
      return true;
    if (walked_ > 0) return false;
    skip_++;
    return true;
  }
  // Keeps the address of a frame, which is not what it was; 0 for a frame that is not there any
  // more.
  [[gnu::always_inline]] void replace(uint32_t index, uint64_t address) {
    const uint64_t change = address - frames_[index].address;
    frames_[index].address = address;
    packed_[index] = static_cast<uint32_t>(address);
    const uint32_t place = index - skip_;
    if (place < scope_.depth()) sum_ += StackTable::weight(change, place);
  }
  // An entry in which every frame differs. Up to frame `last` there may be addresses.
  [[gnu::cold]] void start_over(StackScope scope, uint32_t last) {
    for (uint32_t i = 0; i <= last; i++) frames_[i].address = 0;
    scope_ = scope;
    first_ = sum_ = 0;
    set_inner(0);
    skip_ = walked_ = 0;
  }
  void set_inner(uint32_t count) {
    inner_ = count;
    last_ = frames_ + count;
    compare_ = recent_stack_compare[count];
  }

  uint64_t key_ = 0;    // top of the stack plus the scope; 0: the entry does not match anything
  uint64_t first_ = 0;  // frame pointer
  uint64_t named_ = 0;  // pair and kStackTruncated, for `caller_`
  uint64_t caller_ = 0;
  const void* compare_ = nullptr;  // the code that compares as many frames as there are
  const Frame* last_ = frames_;
  uint32_t inner_ = 0;       // frames before the last one
  End end_ = End::kOutside;  // of the last one
  // What may be followed, and become another stack.
  uint64_t top_ = 0;    // of the stack
  uint64_t sum_ = 0;    // of the weights of what is recorded
  uint64_t stack_ = 0;  // number and kStackTruncated
  StackScope scope_;
  uint32_t skip_ = 0;              // frames of the allocator that are skipped
  uint32_t recorded_ = 0;          // behind them
  uint32_t walked_ = 0;            // frames that have an address: the last one may have none
  Frame frames_[kMaxFrames] = {};  // behind the last one addresses are 0
  uint32_t packed_[kMaxFrames] = {};
};

// Where the last frame led may be outside of one stack and on another: what is outside of all is
// put there instead, and ends() looks at what is found. Three frames at a time: what is behind the
// last one does not matter.
inline bool RecentStack::move(uint64_t frame_pointer, StackScope scope, uint64_t top) {
  if (frames_[0].address != reinterpret_cast<const uint64_t*>(frame_pointer)[1] ||
      first_ - top_ != frame_pointer - top || key_ - top_ != scope.word() ||
      top % StackScope::kLimit != 0)
    return false;
  const uint64_t distance = top - top_;
  if (distance == 0) return true;
  first_ = frame_pointer;
  top_ = top;
  key_ = top + scope.word();
  static_assert(kMaxFrames % 3 == 0);
  Frame* const last = frames_ + inner_;
  for (Frame* frame = frames_; frame < last; frame += 3) {
    frame[0].next += distance;
    frame[1].next += distance;
    frame[2].next += distance;
  }
  last->next = 0;
  return true;
}

inline bool RecentStack::readdress(const Frame* from, uint64_t frame_pointer, StackScope scope,
                                   uint64_t top) {
  if (!is_at(frame_pointer, scope, top)) return false;
  key_ = 0;
  if (!from) from = frames_;
  const auto* memory =
      reinterpret_cast<const uint64_t*>(from == frames_ ? frame_pointer : from[-1].next);
  const Frame* const last = last_;
  for (const Frame* frame = from; frame != last; frame++) {
    const uint64_t next = frame->next, address = memory[1];
    if (memory[0] != next) return false;
    if (address != frame->address) {
      const auto index = static_cast<uint32_t>(frame - frames_);
      if (index <= skip_ || address == 0 || !StackTable::packs(address)) return false;
      replace(index, address);
    }
    memory = reinterpret_cast<const uint64_t*>(next);
  }
  return memory[1] == last->address && (memory[0] == last->next || ends(memory, top));
}

template <typename Skipped>
inline bool RecentStack::refresh(uint64_t frame_pointer, StackScope scope, uint64_t top,
                                 Skipped skipped) {
  const uint32_t most = scope.walk(), before = inner_;
  key_ = 0;
  if (outside(frame_pointer, top - kKernelStackSize, top) || top % StackScope::kLimit != 0 ||
      most > kMaxFrames) {
    return false;
  }
  if (scope_.word() != scope.word()) start_over(scope, before);
  // Frames before this one led to frames of the stack. As long as one lies where it lay, that need
  // not be looked at.
  const uint32_t trusted = first_ == frame_pointer && top_ == top ? before : 0;
  bool in_place = true;
  first_ = frame_pointer;
  top_ = top;
  const auto* memory = reinterpret_cast<const uint64_t*>(frame_pointer);
  uint32_t index = 0, walked;
  End end = End::kAnywhere;
  for (;; index++) {
    Frame& frame = frames_[index];
    const uint64_t next = memory[0], address = memory[1];
    walked = index;
    if (address == 0) break;
    if (address != frame.address) {
      if (!StackTable::packs(address) || !skips_as_before(index, address, skipped)) [[unlikely]] {
        start_over(scope, std::max(index, before));
        return false;
      }
      replace(index, address);
    }
    const bool leads_as_before = index < trusted && next == frame.next;
    frame.next = next;
    walked = index + 1;
    if (walked == most) break;
    if (!(in_place && leads_as_before) &&
        outside(next, reinterpret_cast<uint64_t>(memory + 2), top)) {
      end = End::kOutside;
      break;
    }
    in_place = leads_as_before;
    memory = reinterpret_cast<const uint64_t*>(next);
  }
  for (uint32_t gone = walked; gone <= before; gone++) replace(gone, 0);
  set_inner(index);
  end_ = end;
  walked_ = walked;
  if (walked < skip_) {
    start_over(scope, index);
    return false;
  }
  recorded_ = std::min(walked - skip_, scope.depth());
  stack_ = walked - skip_ > scope.depth() ? kStackTruncated : 0;
  return true;
}

// The table of a CPU: of each place the entry that is used for it, or no_recent_stack, which
// nothing matches. Places come in sets: a stack is at its own or, if others were there since, at
// another one of the set.
inline constexpr size_t kRecentPlaces = 256, kRecentWays = 4;
using RecentPlaces = std::array<RecentStack*, kRecentPlaces>;
extern std::array<RecentPlaces*, kMaxCpus> recent_places;
extern RecentStack no_recent_stack;

// Takes a page for each of `cpus` CPUs, or does without. No trace is begun, no tracer lock held.
void recent_stacks_open(uint32_t cpus);
void recent_stacks_close();
// This CPU has none any more; pages that it has not used since the last time are given back, a few
// of them. Interrupts off, in the context of trace_memory_prepare(). Bound: some 2,000
// instructions.
void recent_stacks_forget();

// Which place is that of the stack that begins at the frame: what its address has in common with
// that of the same frame on other stacks, whose tops are whole pages, and the return address.
inline size_t recent_index(uint64_t frame_pointer) {
  static_assert(kRecentPlaces << 4 <= kPageSize);
  const uint64_t mixed = frame_pointer >> 4 ^ reinterpret_cast<const uint64_t*>(frame_pointer)[1];
  return mixed % kRecentPlaces;
}
// What this CPU has at the place of the stack that begins at the frame, which must be on the
// current stack. Interrupts off.
inline RecentStack* recent_place(uint64_t frame_pointer, uint64_t cpu) {
  return (*recent_places[cpu])[recent_index(frame_pointer)];
}
inline RecentStack* recent_place(uint64_t frame_pointer, const Cpu& cpu) {
  return recent_place(frame_pointer, cpu.id);
}
// Brings an entry of a stack that begins at the frame, as far from the top, to the stack's place,
// where there is none: one made on another stack, or one from another place of the set. nullptr
// if there is none; its frames may differ.
[[gnu::always_inline]] inline RecentStack* bring_recent(uint64_t frame_pointer, StackScope scope,
                                                        uint64_t top, uint64_t cpu) {
  RecentPlaces& places = *recent_places[cpu];
  const size_t index = recent_index(frame_pointer);
  for (size_t i = 0; i < kRecentWays; i++) {
    RecentStack* const entry = places[index ^ i];
    if (!entry->move(frame_pointer, scope, top)) continue;
    places[index ^ i] = places[index];
    places[index] = entry;
    return entry;
  }
  return nullptr;
}
// The entry that has the stack, which that at its place does not, or has said of it `*from`.
// nullptr if there is none; if *from is not nullptr then, that at the place begins alike, and this
// is what it says: readdress().
[[gnu::always_inline]] inline RecentStack* find_recent(uint64_t frame_pointer, StackScope scope,
                                                       const Cpu& cpu,
                                                       const RecentStack::Frame** from) {
  const uint64_t top = cpu.kernel_stack;
  RecentStack* const entry = *from ? nullptr : bring_recent(frame_pointer, scope, top, cpu.id);
  if (!entry) return nullptr;
  *from = entry->differs(top);
  return *from ? nullptr : entry;
}
// An entry for another stack at its place; nullptr if there can be none. What was there moves on in
// the set, of which one goes if it is full. Takes a page at most. After trace_memory_prepare().
RecentStack* replace_recent(uint64_t frame_pointer, const Cpu& cpu);
