// Coverage: the basic blocks of the kernel's code that the system calls of selected tasks have
// reached.
//
// With CONFIG_COVERAGE the compiler calls __sanitizer_cov_trace_pc at the start of each basic block
// of the sources listed in kern.mk (KERN_COVERED). These sources implement the system calls. Entry,
// locks, allocator, hooks and scheduler are not listed, because their paths vary from run to run. A
// task that uses a map records the blocks that it runs itself, but not those of interrupts.
// Children record nothing until they use a map.
//
// A place is the return address of a call of __sanitizer_cov_trace_pc. A map has each reached place
// once, in the order in which the places were first reached. So a reader that continues at the end
// of its last read sees only places that were reached for the first time since that read.
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
  // Reads the places as an array of 64-bit return addresses. Copies whole addresses, at most `size`
  // bytes from `offset` on, and returns the number of bytes; 0 at the end.
  size_t read(char* buffer, size_t size, uint64_t offset) const;

 private:
  static constexpr uint32_t kMaxPlaces = 1 << 15;
  // A call instruction has five bytes, so at most one return address lies in each four bytes.
  static constexpr uint64_t kGrain = 4;

  // A bit for each kGrain bytes of the kernel's code. The bits lie after the object.
  std::atomic<uint64_t>* seen() { return reinterpret_cast<std::atomic<uint64_t>*>(this + 1); }

  std::atomic<uint32_t> count_{0};  // number of places; those beyond kMaxPlaces are dropped
  std::atomic<uint64_t> places_[kMaxPlaces] = {};
};

// Makes the current task record in `map`. `map` nullptr: ends recording. May sleep.
void coverage_use(CoverageMap* map);
#endif
