// The kinds of objects with a reference count. The references of each kind can be traced, as the
// allocations of a cache can be traced.
#pragma once

#include <cstdint>

enum class RefKind : uint8_t {
  kChan,
  kNamespace,
  kAddressSpace,
  kTmpNode,
  kCoverageMap,
  kPty,
  kTest,
};
inline constexpr unsigned kRefKinds = 7;

// A CPU's counts for one class of references. Each count changes in a single instruction, so that a
// task may move to another CPU between two changes.
struct RefCounts {
  uint64_t taken;  // number of references; kRefTraced, the sign bit, is added while the kind is
                   // traced
  uint64_t put;    // number of references; kRefTraced is added while the kind is KMC_EVER_TRACED
};
inline constexpr uint64_t kRefTraced = uint64_t{1} << 63;
