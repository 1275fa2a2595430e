// Records of outstanding objects, as they go into a table and come out of one.
#pragma once

#include <cstdint>

#include "core/cpu.h"
#include "intern/ids.h"

// A record has a mark: how many `mark` commands the trace had before the allocation. The records of
// probes on programs have an owner instead of a mark, since their objects are identified by address
// and process. The owner is a PID; probe/objects.cc may set a further bit in it.
enum class TraceOwner : uint16_t { kNobody = 0 };
constexpr TraceOwner trace_owner(uint32_t pid) {
  return static_cast<TraceOwner>(pid);
}

// The record of one outstanding object, copied out of a table. Dumps consist of these records.
class TraceRecord {
 public:
  uint64_t object() const { return object_of(object_mark_); }
  uint32_t mark() const { return mark_of(object_mark_); }
  uint64_t size() const { return size_cpu_ >> 16; }  // requested bytes
  // The CPU that allocated the object.
  CpuId cpu() const { return CpuId{static_cast<uint32_t>(size_cpu_ & kCpu)}; }
  // True if kmem_not_leak() was called for the object: the kernel keeps it intentionally.
  bool not_leak() const { return (size_cpu_ & kNotLeak) != 0; }
  // Coarse time of the allocation, since boot.
  Milliseconds time() const { return {uint64_t{high_milliseconds()} << 32 | time_}; }

  // The halves of time(). Reading the lower half is a single load. The upper half changes every
  // seven weeks.
  uint32_t low_milliseconds() const { return time_; }
  uint32_t high_milliseconds() const {
    return static_cast<uint32_t>((size_cpu_ & kHighTime) >> kStampCpuBits);
  }

  // Kernel stack and user stack; kNone: not recorded.
  StackId stack, user_stack;
  ContextId context;

 private:
  friend class TraceTable;
  friend struct TableStore;
  static constexpr uint64_t kCpu = (1u << kStampCpuBits) - 1, kNotLeak = 1u << 15,
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
  uint32_t time_;  // the lower half of time(); bits of size_cpu_ hold the upper half
  uint64_t object_mark_, size_cpu_;
};
static_assert(sizeof(TraceRecord) == 32);

// An allocation that is to be recorded.
struct TraceEvent {
  uint64_t object;  // not 0
  uint64_t size;    // requested bytes
  StackId stack;
  StackId user_stack = StackId::kNone;
  ContextId context;
  Milliseconds time;
  CpuId cpu;
  bool truncated;                // the kernel or user stack was deeper than its recorded part
  bool user_stack_lost = false;  // true: only the kernel stack is recorded
};
