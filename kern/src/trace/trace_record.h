// Records of outstanding objects, as they go into a table and come out of one.
#pragma once

#include <cstdint>

#include "core/cpu.h"

// Where probes on programs record, an object is known by its process too: the owner takes the place
// of the mark. A PID, perhaps with the bit of probe_objects.cc.
enum class TraceOwner : uint16_t { kNobody = 0 };
constexpr TraceOwner trace_owner(uint32_t pid) {
  return static_cast<TraceOwner>(pid);
}

// One outstanding object, copied out of a table. Dumps consist of these.
class TraceRecord {
 public:
  uint64_t object() const { return object_of(object_mark_); }
  uint32_t mark() const { return mark_of(object_mark_); }
  uint64_t size() const { return size_cpu_ >> 16; }  // requested bytes
  uint32_t cpu() const { return size_cpu_ & kCpu; }  // that it was allocated on
  // The kernel has declared that the object stays.
  bool not_leak() const { return (size_cpu_ & kNotLeak) != 0; }
  // Coarse time of the allocation, since boot.
  uint64_t milliseconds() const { return uint64_t{high_milliseconds()} << 32 | time_; }

  // The halves of milliseconds(); the lower one costs nothing, the upper one changes every seven
  // weeks.
  uint32_t low_milliseconds() const { return time_; }
  uint32_t high_milliseconds() const {
    return static_cast<uint32_t>((size_cpu_ & kHighTime) >> kStampCpuBits);
  }

  // StackTable; 0: not recorded. The first may be a pair of both until it is split
  // (dump/last_pair.h).
  uint32_t stack, user_stack;
  uint32_t context;  // ContextTable, 0: not recorded

 private:
  friend class TraceTable;
  static constexpr uint64_t kCpu = (1u << kStampCpuBits) - 1, kNotLeak = 1u << kStampBits,
                            kHighTime = (kNotLeak - 1) & ~kCpu;
  // An object and its mark or owner in one word: the upper 16 bits of a canonical address, which
  // are all equal, are XORed with the mark.
  static constexpr unsigned kMarkBits = 16, kMarkShift = 64 - kMarkBits;
  static constexpr uint64_t word_of(uint64_t object, uint64_t mark) {
    return object ^ mark << kMarkShift;
  }
  static constexpr uint64_t word_of(uint64_t object, TraceOwner owner) {
    return word_of(object, static_cast<uint64_t>(owner));
  }
  static constexpr uint64_t object_of(uint64_t word) {
    return static_cast<uint64_t>(static_cast<int64_t>(word << kMarkBits) >> kMarkBits);
  }
  static constexpr uint32_t mark_of(uint64_t word) {
    return static_cast<uint32_t>((word ^ object_of(word)) >> kMarkShift);
  }
  uint32_t time_;  // the lower half; the rest lies between CPU and kNotLeak
  uint64_t object_mark_, size_cpu_;
};
static_assert(sizeof(TraceRecord) == 32);

// An allocation.
struct TraceEvent {
  uint64_t object;  // not 0
  uint64_t size;
  uint32_t stack;  // or a pair
  uint32_t context;
  uint64_t time;  // coarse milliseconds
  uint16_t cpu;
  bool truncated;                // the kernel or user stack was deeper than its recorded part
  bool user_stack_lost = false;  // only the kernel stack is recorded
};
