// The index of live objects: leads from any address to the object that contains it.
//
// Memory consists of page frames. Objects come in runs: a run is the objects of one slab, or one
// segment of an arena, which is a single object. The index consists of three arrays. For each frame
// there is a word that names the run that lies in the frame. For each run there is the layout of
// its objects. For each object there is a state byte. So two loads and a division lead from an
// address to its object. An address outside of all objects leads to nothing.
//
// Runs nest: a slab lies in a segment of an arena. Outer runs are added first. When an inner run is
// added, the segment around it stops being an object. Frames of the outer run that the inner run
// does not cover still name the outer run.
//
// This file does not depend on the kernel: a program that reads the memory of another system, for
// example from a core, builds its index in the same way. The caller supplies the memory for the
// index. If this memory is too small, all runs and objects are still counted, and complete() is
// false.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace reach {

// State bits of an object. kSeen, kCandidate and kKept are for the search for heads (heads.h). The
// search for references (references.cc) uses kSeen, too.
enum State : uint8_t {
  kLive = 0x1,
  kReached = 0x2,
  kPending = 0x4,  // reached, but the stack was full: to be scanned later (reached.h)
  kOpaque = 0x8,   // the contents of the object are not followed
  kWalked = 0x10,  // a page table that has been walked
  kSeen = 0x20,
  kCandidate = 0x40,
  kKept = 0x80,
};

// The size is 64 bytes, so that indexing an array of runs needs a shift only.
struct alignas(64) Run {
  uint64_t base;    // address of the first object
  uint64_t extent;  // bytes from `base` to the end of the last object
  uint64_t size;    // bytes of an object
  uint8_t* states;  // one state for each object
  uint32_t stride;  // bytes from object to object; 0: there is one object
  uint32_t count;
  uint16_t source;  // number of the Source of the objects (objects_impl.h)
  bool walks;       // a walker is registered for the objects (reach_register_walker)
  // Bytes at the end of each object that hold no pointers (kmem_cache_set_payload).
  uint64_t payload = 0;
  uint64_t searched = 0;  // bytes of each object that are searched for pointers: size - payload
};
static_assert(sizeof(Run) == 64);

struct Object {
  const Run* run = nullptr;
  uint32_t place = 0;  // index of the object in the run

  explicit operator bool() const { return run != nullptr; }
  uint8_t& state() const { return run->states[place]; }
  uint64_t address() const { return run->base + uint64_t{place} * run->stride; }
  uint64_t size() const { return run->size; }
};

class Index {
 public:
  static constexpr unsigned kFrameShift = 12;

  // Memory begins at `base` and has as many frames as `frames` has elements. The caller has zeroed
  // the elements.
  Index(uint64_t base, std::span<uint32_t> frames, std::span<Run> runs, std::span<uint8_t> states)
      : base_(base), frames_(frames), runs_(runs), states_(states) {
    if (!runs.empty())
      runs[0] = {};  // frames without objects name run 0, which contains no address
  }

  // Adds `filled.count` live objects. They lie in the `memory` bytes at `start`, which are whole
  // frames. They stay live unless set_dead() or cover() is called. The caller fills in all fields
  // of `filled` except `states`, `extent` and `searched`.
  void add(uint64_t start, uint64_t memory, const Run& filled) {
    cover(start);
    const uint32_t number = run_count_++, first = object_count_;
    object_count_ += filled.count;
    if (!complete()) return;
    Run& run = runs_[number] = filled;
    run.states = &states_[first];
    run.extent = uint64_t{run.count - 1} * run.stride + run.size;
    run.searched = run.size - run.payload;
    __builtin_memset(run.states, kLive, run.count);
    const uint64_t frame = frame_of(start), end = frame_of(start + memory - 1) + 1;
    for (uint64_t i = frame; i < end && i < frames_.size(); i++) frames_[i] = number;
  }
  // The object that contains `start` stops being an object, because an inner run lies in its
  // memory.
  void cover(uint64_t start) {
    if (const Object outer = find(start)) outer.state() = 0;
  }

  // Finds the object, live or not, that contains the address.
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

  // Returns the number of an object, less than object_count().
  uint32_t number_of(const Object& object) const {
    return static_cast<uint32_t>(&object.state() - states_.data());
  }

  uint64_t base() const { return base_; }
  std::span<const uint32_t> frames() const { return frames_; }
  // The runs. Frames without objects name the first run.
  const Run* all_runs() const { return runs_.data(); }
  // True if the memory of the index was enough. The index needs run_count() runs and object_count()
  // state bytes.
  bool complete() const { return run_count_ <= runs_.size() && object_count_ <= states_.size(); }
  uint32_t run_count() const { return run_count_; }
  uint32_t object_count() const { return object_count_; }

  // Calls visit(object) for each object whose state, masked with `mask`, equals `value`, in the
  // order of the objects' numbers. for_each_backwards() visits them in reverse order.
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
  // Makes the next search walk all page tables again.
  void forget_walks() const {
    for_each(kWalked, kWalked,
             [](const Object& object) { object.state() &= static_cast<uint8_t>(~kWalked); });
  }
  // The number of live objects, and how many of them are reached.
  struct Counts {
    uint64_t live = 0, reached = 0;
  };
  Counts count() const {
    Counts counts;
    const uint32_t objects = complete() ? object_count_ : 0;
    for (uint32_t i = 0; i < objects; i += 8) {
      uint64_t eight = 0;  // states, padded with zeros at the end
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
