// Coverage: the branches of the kernel's code that the system calls of selected tasks have reached.
//
// With CONFIG_COVERAGE the compiler calls __sanitizer_cov_trace_pc at every branch of the sources
// listed in kern.mk (KERN_COVERED): the implementation of system calls, but not entry, locks,
// allocator, hooks and scheduler, which vary from run to run. A task that uses a map records its
// own branches, not those of interrupts. Children record nothing until they use a map.
//
// A place is the return address of a call of __sanitizer_cov_trace_pc. A map has each reached place
// once, in the order in which the places were first reached. So a reader that continues at the end
// of its last read sees only places that were reached for the first time since then.
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

  // Adds the place unless the map has it already. Any context but NMI; any lock may be held.
  void record(uint64_t return_address);
  // The places as an array of 64-bit return addresses: copies at most `size` bytes from `offset`,
  // in whole addresses; 0 at the end.
  size_t read(char* buffer, size_t size, uint64_t offset) const;

 private:
  static constexpr uint32_t kMaxPlaces = 1 << 15;
  // A call has five bytes, so two return addresses are at least five bytes apart.
  static constexpr uint64_t kGrain = 4;

  // A bit for each kGrain bytes of the kernel's code. The bits lie after the object.
  std::atomic<uint64_t>* seen() { return reinterpret_cast<std::atomic<uint64_t>*>(this + 1); }

  std::atomic<uint32_t> count_{0};  // number of places; those beyond kMaxPlaces are dropped
  std::atomic<uint64_t> places_[kMaxPlaces] = {};
};

// Makes the current task record in `map`; nullptr ends recording. May sleep.
void coverage_use(CoverageMap* map);
#endif
