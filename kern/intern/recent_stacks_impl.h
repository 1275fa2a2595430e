// A CPU's recently recorded kernel stacks, so that another allocation from the same place in the
// code need not walk and hash its stack.
//
// Each CPU has a table, in sets of four entries. An entry holds the frame pointer and return
// address of each frame of a walk, and the number of the stack. An entry matches the current stack
// if each frame of the stack has the values in the entry. The comparison follows the frames as the
// walk would, with six instructions a frame, so it has the same result as a walk. (The frame
// pointer in the last frame may differ if a walk would also end at this frame.) A shorter key would
// not be enough: stacks that differ only in outer frames have the same inner frames.
//
// Tasks that do the same work have the same frames at the same distance from the top of their
// stacks. So the table is indexed by the first frame's offset in its page, which is the same on all
// these stacks, and by the first frame's return address. move() adapts an entry to another stack:
// it adds the distance between the tops of both stacks to every frame pointer, with one instruction
// a frame. Then the entry is compared as usual.
//
// If a stack differs from the entry in return addresses only, as when one function is called from
// several places, readdress() changes the entry while comparing. The stack table's hash is a sum
// over the frames, so only changed frames are added again. In all other cases refresh() walks the
// stack and fills the entry. Like readdress(), it changes only frames that differ. It checks the
// bounds of a frame only if the frame lies at another address than before. In an unused entry all
// frames differ.
//
// A stack is kept only if it begins on the current task's own stack and its return addresses can be
// packed into 32 bits (StackTable::packs()). A walk ends where a frame pointer leaves this stack.
// An entry stores the top of its stack. While the CPU's current stack has the same top, all frame
// pointers of the entry lie on this stack and may be followed without bounds checks.
//
// A trace record names a pair: the kernel stack and the caller's user stack (stack_table.h). An
// entry caches the last caller and the number of its pair. When the same caller occurs again, in
// any process, one comparison gives the pair.
//
// An entry is used and filled only by its CPU, with interrupts and probes off. The pages are trace
// memory. When the first trace begins, each CPU gets one page, with the table. Further pages are
// taken when entries are needed, as long as the pages of all CPUs together are a small part of the
// limit of trace memory. When no further page may be taken, several indices share one entry. All
// pages are given back when the stack table is emptied.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "arch/x86_64/context.h"
#include "core/cpu.h"
#include "intern/stack_scope.h"
#include "intern/stack_table.h"

// [n] is the entry point of recent_stacks.S that compares n frames before the last frame.
extern "C" const void* const recent_stack_compare[64];

class RecentStack {
 public:
  static constexpr uint32_t kMaxFrames = 63;
  struct Frame {
    uint64_t address;  // return address
    uint64_t next;     // frame pointer stored in the frame: the address of the next frame
  };

  constexpr RecentStack() = default;

  // True if the entry's stack begins at this frame and has this top and scope. The content of the
  // stack may have changed.
  [[gnu::always_inline]] bool is_at(uint64_t frame_pointer, StackScope scope, uint64_t top) const {
    return is_at(frame_pointer, top + scope.word());
  }
  // is_at() with top and scope given as `key`, the sum of the top and the scope's word.
  [[gnu::always_inline]] bool is_at(uint64_t frame_pointer, uint64_t key) const {
    return first_ == frame_pointer && key_ == key;
  }
  // Call only if is_at() is true. Returns nullptr if a walk would have the same result as before.
  // Otherwise returns the first frame of the entry that differs from the stack.
  const Frame* differs(uint64_t top) const {
    return differs_below([top] { return top; });
  }
  // differs() with a function that returns the top. The function is called only if the top is
  // needed.
  template <typename Top>
  [[gnu::always_inline]] const Frame* differs_below(Top top) const {
    // These loads must come before the register variables are set: with a sanitizer a load calls a
    // function, which changes registers.
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
  // True if a walk from `frame_pointer` would have the same result as before.
  [[gnu::always_inline]] bool matches(uint64_t frame_pointer, StackScope scope,
                                      uint64_t top) const {
    return is_at(frame_pointer, scope, top) && !differs(top);
  }
  const void* first_frame() const {
    return reinterpret_cast<const void*>(first_);
  }
  // True if the entry matches no stack.
  bool is_free() const {
    return key_ == 0;
  }
  // True if the entry's stack begins at this frame.
  bool begins_at(uint64_t frame_pointer) const {
    return first_ == frame_pointer;
  }
  // The number of the stack, with kStackTruncated if the stack has more frames than are recorded.
  uint64_t stack() const {
    return stack_;
  }

  // True if named() was set for this caller.
  bool knows(TraceCaller caller) const {
    return caller_ == caller;
  }
  // Returns the number that a record stores: the number of the pair, or of the kernel stack if the
  // caller is kNone. The number has kStackTruncated if one of the stacks is truncated.
  uint64_t named() const {
    return named_;
  }
  // Sets named() for records without a user stack.
  void unpair() {
    caller_ = TraceCaller::kNone;
    named_ = stack_;
  }
  // Sets named() for records with this caller, which has a user stack.
  void pair(TraceCaller caller, StackId pair) {
    caller_ = caller;
    named_ = ((stack_ | static_cast<uint64_t>(caller)) & kStackTruncated) | number_of(pair);
  }

  // The entry's stack may be another task's. Returns true if this stack and the stack at
  // `frame_pointer` have the same scope, the same return address in the first frame, and the same
  // distance from the first frame to the top. In this case first moves the entry to the stack at
  // `frame_pointer`; the caller must still compare the other frames. Otherwise changes nothing.
  [[gnu::always_inline]] inline bool move(uint64_t frame_pointer, StackScope scope, uint64_t top);
  // If is_at() is false, returns false and changes nothing. Otherwise stores changed return
  // addresses in the entry. Then returns true if the entry holds the stack, and false if it still
  // differs. In both cases the entry matches nothing until name() is called. `from` is the result
  // of differs(), or nullptr if differs() was not called.
  [[gnu::always_inline]] inline bool readdress(const Frame* from, uint64_t frame_pointer,
                                               StackScope scope, uint64_t top);
  // Walks the stack and stores the result in the entry. The entry matches nothing until name() is
  // called. False if the entry cannot hold the stack: the first frame does not lie on the task's
  // own stack, a return address cannot be packed, the scope has more than kMaxFrames frames, or the
  // number of skipped frames has changed. The entry is then unused. skipped(address) is true for
  // frames that a scope may skip.
  template <typename Skipped>
  [[gnu::always_inline]] inline bool refresh(uint64_t frame_pointer, StackScope scope, uint64_t top,
                                             Skipped skipped);
  // The recorded frames, packed. sum() is the sum of their weights (StackTable::weight).
  std::span<const uint32_t> frames() const {
    return {packed_ + skip_, recorded_};
  }
  uint64_t sum() const {
    return sum_;
  }
  // True if the stack has more frames than are recorded.
  bool truncated() const {
    return stack_ >= kStackTruncated;
  }
  // Sets the number of the stack and forgets the pair. From now on the entry can match.
  void name(StackId id) {
    stack_ = (stack_ & kStackTruncated) | number_of(id);
    unpair();
    key_ = top_ + scope_.word();
  }

 private:
  // Why the walk ended at the last frame. This determines which changed frame pointers in the last
  // frame are accepted.
  enum class End : uint32_t {
    // The walk reached its largest number of frames, or the last frame has no return address: any
    // change is accepted.
    kAnywhere,
    // The frame pointer pointed out of the stack: any other pointer out of the stack is accepted.
    kOutside,
  };

  static bool outside(uint64_t next, uint64_t above, uint64_t top) {
    return next < above || next + 16 > top || (next & 7) != 0;
  }
  // True if a walk would still end at the last frame, although its frame pointer has changed.
  bool ends(const uint64_t* last, uint64_t top) const {
    return end_ == End::kAnywhere || outside(last[0], reinterpret_cast<uint64_t>(last) + 16, top);
  }

  // False if the frame at `index` was skipped and is now to be recorded, or was the first recorded
  // frame and is now to be skipped. In an unused entry, counts the skipped frames and returns true.
  template <typename Skipped>
  [[gnu::always_inline]] bool skips_as_before(uint32_t index, uint64_t address, Skipped skipped) {
    if (index > skip_ || !scope_.skips_allocator() || skipped(address) == (index < skip_))
        [[likely]]
      return true;
    if (walked_ > 0) return false;
    skip_++;
    return true;
  }
  // Changes the return address of a frame; 0 for a frame that does not exist any more.
  [[gnu::always_inline]] void replace(uint32_t index, uint64_t address) {
    const uint64_t change = address - frames_[index].address;
    frames_[index].address = address;
    packed_[index] = static_cast<uint32_t>(address);
    const uint32_t place = index - skip_;
    if (place < scope_.depth()) sum_ += StackTable::weight(change, place);
  }
  // Resets the entry, so that each of its frames differs from every stack. The caller ensures that
  // no frame after index `last` has a return address.
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

  uint64_t key_ = 0;    // top of the stack plus the scope; 0: the entry matches nothing
  uint64_t first_ = 0;  // address of the stack's first frame
  uint64_t named_ = 0;  // number of the pair with `caller_`, and kStackTruncated
  TraceCaller caller_ = TraceCaller::kNone;
  const void* compare_ = nullptr;  // recent_stack_compare[inner_]
  const Frame* last_ = frames_;    // the last frame
  uint32_t inner_ = 0;             // number of frames before the last frame
  End end_ = End::kOutside;        // why the walk ended at the last frame
  // Used only to change the entry.
  uint64_t top_ = 0;    // top of the stack
  uint64_t sum_ = 0;    // sum of the recorded frames' weights
  uint64_t stack_ = 0;  // number of the stack, and kStackTruncated
  StackScope scope_;
  uint32_t skip_ = 0;      // number of the allocator's frames, which are skipped
  uint32_t recorded_ = 0;  // number of recorded frames, after the skipped ones
  uint32_t walked_ = 0;    // number of frames with a return address; the last frame may have none
  Frame frames_[kMaxFrames] = {};     // return addresses after the last frame are 0
  uint32_t packed_[kMaxFrames] = {};  // packed return addresses of all frames
};

// In the last frame, a frame pointer that pointed out of the old stack could point into the new
// stack. So the entry gets 0 there, which is outside of all stacks, and ends() checks the frame
// pointer in memory. The loop handles three frames at a time; changes after the last frame have no
// effect.
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
  // The frame pointers of frames before this index pointed into the stack. They need no bounds
  // check while they are unchanged.
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

// The table of a CPU: for each index an entry, or no_recent_stack, which matches nothing. Four
// indices that differ only in the lowest two bits form a set. A stack's entry is at the stack's own
// index, or, after another entry has taken this index, at another index of the set.
inline constexpr size_t kRecentPlaces = 256, kRecentWays = 4;
using RecentPlaces = std::array<RecentStack*, kRecentPlaces>;
extern std::array<RecentPlaces*, kMaxCpus> recent_places;
extern RecentStack no_recent_stack;

// Takes a page for each of `cpus` CPUs; CPUs without a page keep no stacks. Call this before
// the first trace or probe session records anything, with no tracer lock held.
void recent_stacks_open(uint32_t cpus);
// Gives the pages of all CPUs back. Call this after the last trace or probe session has ended, with
// no tracer lock held.
void recent_stacks_close();
// Clears this CPU's table, and gives back a few of the pages that the table has not used since the
// last call. Interrupts and probes are off; no lock of a rank below kArenaTags is held. Bound:
// about 2,000 instructions.
void recent_stacks_forget();

// The index of the stack that begins at the frame: a hash of the frame's offset in its page and of
// its return address. Frames at the same distance from the tops of their stacks have the same
// offset, because these tops are page-aligned.
inline size_t recent_index(uint64_t frame_pointer) {
  static_assert(kRecentPlaces << 4 <= kPageSize);
  const uint64_t mixed = frame_pointer >> 4 ^ reinterpret_cast<const uint64_t*>(frame_pointer)[1];
  return mixed % kRecentPlaces;
}
// Returns this CPU's entry at the index of the stack that begins at the frame. The frame must be on
// the current stack. Interrupts off.
inline RecentStack* recent_place(uint64_t frame_pointer, CpuId cpu) {
  return (*recent_places[number_of(cpu)])[recent_index(frame_pointer)];
}
inline RecentStack* recent_place(uint64_t frame_pointer, const Cpu& cpu) {
  return recent_place(frame_pointer, cpu.id);
}
// Searches the set of the stack that begins at `frame_pointer` for an entry that move() can adapt
// to this stack. Moves the entry, puts it at the stack's index and returns it. The caller must
// still compare the frames after the first. Returns nullptr if there is no such entry.
[[gnu::always_inline]] inline RecentStack* bring_recent(uint64_t frame_pointer, StackScope scope,
                                                        uint64_t top, CpuId cpu) {
  RecentPlaces& places = *recent_places[number_of(cpu)];
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
// Finds the entry that holds the stack; nullptr if there is none. Call this only if the entry at
// the stack's index does not match. Before the call, *from must be the result of that entry's
// differs(), or nullptr if that entry's is_at() is false.
//
// When find_recent() returns nullptr, the entry at the stack's index may be another one than before
// the call. If its is_at() is true, *from is its first frame that differs from the stack, and
// readdress() may be able to change the entry. Otherwise *from is nullptr.
[[gnu::always_inline]] inline RecentStack* find_recent(uint64_t frame_pointer, StackScope scope,
                                                       const Cpu& cpu,
                                                       const RecentStack::Frame** from) {
  const uint64_t top = cpu.kernel_stack;
  RecentStack* const entry = *from ? nullptr : bring_recent(frame_pointer, scope, top, cpu.id);
  if (!entry) return nullptr;
  *from = entry->differs(top);
  return *from ? nullptr : entry;
}
// Makes room for a stack at its index and returns the entry; nullptr if there is no memory. Older
// entries move to other indices of the set; if the set is full, the oldest entry is reused. Takes
// at most one page. Call after trace_memory_prepare().
RecentStack* replace_recent(uint64_t frame_pointer, const Cpu& cpu);
