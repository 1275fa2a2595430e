// Coverage: which places of the kernel's code the system calls of some tasks have reached.
//
// With CONFIG_COVERAGE the compiler calls __sanitizer_cov_trace_pc at every branch of the sources
// that kern.mk names (KERN_COVERED): those in which system calls do their work, not entry, locks,
// allocator, hooks and scheduler, which differ from run to run. A task that uses a map records
// there where it comes by, itself, not the interrupts that hit it. Children record nothing until
// they ask for it.
//
// A map has each place once, in the order in which they were first reached. So whoever reads on
// where he stopped sees what is new since then, and nothing if that was all known.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/ref.h"
#include "lib/result.h"

#ifdef CONFIG_COVERAGE
class CoverageMap : public RefCounted<CoverageMap> {
 public:
  static constexpr RefKind kRefKind = RefKind::kCoverageMap;
  static Result<Ref<CoverageMap>> create();  // ENOMEM. May sleep
  static void destroy(CoverageMap* map);

  // Any context, any lock held; not NMI.
  void record(uint64_t return_address);
  // The places as an array of 64-bit return addresses: copies at most `size` bytes from `offset`,
  // in whole addresses; 0 at the end.
  size_t read(char* buffer, size_t size, uint64_t offset) const;

 private:
  static constexpr uint32_t kMaxPlaces = 1 << 15;
  // A call has five bytes, so that two return addresses never lie within four.
  static constexpr uint64_t kGrain = 4;

  // A bit for each kGrain bytes of the kernel's code, behind the object.
  std::atomic<uint64_t>* seen() { return reinterpret_cast<std::atomic<uint64_t>*>(this + 1); }

  std::atomic<uint32_t> count_{0};  // of places; beyond kMaxPlaces they are not kept
  std::atomic<uint64_t> places_[kMaxPlaces] = {};
};

// From now on the current task records in `map`, or (nullptr) nowhere. May sleep.
void coverage_use(CoverageMap* map);
#endif
