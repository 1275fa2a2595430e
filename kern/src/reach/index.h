// The index of live objects: what an address lies in.
//
// Memory is a number of page frames, and objects come in runs: the objects of a slab, or one piece
// of an arena. The index has a word for each frame, which names the run that begins in it or goes
// through it; runs, with where their objects lie; and a byte for each object, its state. So an
// address leads to its object by two loads and a division, and an address of anything else leads to
// nothing.
//
// Runs lie in one another: a slab is a piece of an arena. Outer ones are added first. Where an
// inner one is added, the piece that it lies in is no object any more; what frames of the outer one
// are not covered keep their meaning.
//
// Nothing here depends on the kernel: who has the memory of another system before him (a core)
// builds an index of it in the same way. Its memory is brought, and may be too small: then all is
// counted, and `complete` says so.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace reach {

// Of an object. The last three belong to who looks for heads (heads.h).
enum State : uint8_t {
  kLive = 0x1,
  kReached = 0x2,
  kPending = 0x4,  // reached, and its contents are still to be followed (mark.h)
  kOpaque = 0x8,   // its contents are not followed
  kWalked = 0x10,  // a page table that has been walked
  kSeen = 0x20,
  kCandidate = 0x40,
  kKept = 0x80,
};

// 64 bytes, so that its place is had by a shift.
struct alignas(64) Run {
  uint64_t base;    // first object
  uint64_t extent;  // from there to the end of the last one; bytes
  uint64_t size;    // of an object; bytes
  uint8_t* states;  // of its objects
  uint32_t stride;  // from object to object; 0: there is one
  uint32_t count;
  uint16_t source;  // whose they are: a number of the owner's
  bool walks;       // has contents that only its owner can follow
};
static_assert(sizeof(Run) == 64);

struct Object {
  const Run* run = nullptr;
  uint32_t place = 0;  // in the run

  explicit operator bool() const { return run != nullptr; }
  uint8_t& state() const { return run->states[place]; }
  uint64_t address() const { return run->base + uint64_t{place} * run->stride; }
  uint64_t size() const { return run->size; }
};

class Index {
 public:
  static constexpr unsigned kFrameShift = 12;

  // Of memory that begins at `base`, of so many frames as `frames` has elements. `frames` is zero.
  Index(uint64_t base, std::span<uint32_t> frames, std::span<Run> runs, std::span<uint8_t> states)
      : base_(base), frames_(frames), runs_(runs), states_(states) {
    if (!runs.empty()) runs[0] = {};  // that of frames that have none: nothing lies in it
  }

  // `memory` bytes at `start`, whole frames, have `count` objects from its base on, which are live
  // until set_dead() is told otherwise. Of `filled` all but `states` and `extent` is filled in.
  void add(uint64_t start, uint64_t memory, const Run& filled) {
    cover(start);
    const uint32_t number = run_count_++, first = object_count_;
    object_count_ += filled.count;
    if (!complete()) return;
    Run& run = runs_[number] = filled;
    run.states = &states_[first];
    run.extent = uint64_t{run.count - 1} * run.stride + run.size;
    __builtin_memset(run.states, kLive, run.count);
    const uint64_t frame = frame_of(start), end = frame_of(start + memory - 1) + 1;
    for (uint64_t i = frame; i < end && i < frames_.size(); i++) frames_[i] = number;
  }
  // `memory` bytes at `start` hold no objects of their own.
  void cover(uint64_t start) {
    if (const Object outer = find(start)) outer.state() = 0;
  }

  // The object, live or not, that an address lies in.
  Object find(uint64_t address) const {
    const uint64_t frame = frame_of(address);
    if (frame >= frames_.size() || runs_.empty()) return {};
    const Run& run = runs_[frames_[frame]];
    const uint64_t offset = address - run.base;
    if (offset >= run.extent) return {};
    if (run.stride == 0) return {&run, 0};
    const auto in_run = static_cast<uint32_t>(offset);
    if (in_run % run.stride >= run.size) return {};
    return {&run, in_run / run.stride};
  }
  void set_dead(uint64_t address) {
    if (const Object object = find(address)) object.state() = 0;
  }

  // Of an object, below object_count().
  uint32_t number_of(const Object& object) const {
    return static_cast<uint32_t>(&object.state() - states_.data());
  }

  uint64_t base() const { return base_; }
  std::span<const uint32_t> frames() const { return frames_; }
  // The first is that of frames that have none.
  const Run* all_runs() const { return runs_.data(); }
  // Whether the memory was enough; how much of it is needed.
  bool complete() const { return run_count_ <= runs_.size() && object_count_ <= states_.size(); }
  uint32_t run_count() const { return run_count_; }
  uint32_t object_count() const { return object_count_; }

  // Calls visit(object) for each whose state has, of the bits in `mask`, those in `value`; in the
  // order of their numbers, or backwards.
  template <typename Visit>
  void for_each(uint8_t mask, uint8_t value, Visit visit) const {
    for (const Run& run : runs()) {
      for (uint32_t place = 0; place < run.count; place++) {
        if ((run.states[place] & mask) == value) visit(Object{&run, place});
      }
    }
  }
  template <typename Visit>
  void for_each_backwards(uint8_t mask, uint8_t value, Visit visit) const {
    for (size_t i = runs().size(); i-- > 0;) {
      const Run& run = runs()[i];
      for (uint32_t place = run.count; place-- > 0;) {
        if ((run.states[place] & mask) == value) visit(Object{&run, place});
      }
    }
  }
  // How many objects are live, and how many of them are reached.
  struct Counts {
    uint64_t live = 0, reached = 0;
  };
  Counts count() const {
    Counts counts;
    const uint32_t objects = complete() ? object_count_ : 0;
    for (uint32_t i = 0; i < objects; i += 8) {
      uint64_t eight = 0;  // states, the last filled up with zeros
      if (i + 8 <= objects) {
        __builtin_memcpy(&eight, &states_[i], sizeof(eight));
      } else {
        for (uint32_t j = i; j < objects; j++) eight |= uint64_t{states_[j]} << (8 * (j - i));
      }
      constexpr uint64_t kOnes = 0x0101010101010101;
      const uint64_t live = eight & kOnes;
      counts.live += live * kOnes >> 56;
      counts.reached += (live & eight >> 1) * kOnes >> 56;
    }
    return counts;
  }

 private:
  uint64_t frame_of(uint64_t address) const { return (address - base_) >> kFrameShift; }
  std::span<const Run> runs() const {
    return complete() ? std::span<const Run>(runs_).subspan(1, run_count_ - 1)
                      : std::span<const Run>();
  }
  const uint64_t base_;
  const std::span<uint32_t> frames_;
  const std::span<Run> runs_;
  const std::span<uint8_t> states_;
  uint32_t run_count_ = 1, object_count_ = 0;
};

}  // namespace reach
