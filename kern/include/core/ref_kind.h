// The kinds of counted objects. References of a kind can be traced, as allocations of a cache can.
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

// A CPU's counts of a kind. Each changes in a single instruction, so that a task may move to
// another CPU between two.
struct RefCounts {
  uint64_t taken;  // with kRefTraced while the kind is traced: the sign of the sum shows it
  uint64_t put;    // with kRefTraced while there is a trace
};
inline constexpr uint64_t kRefTraced = uint64_t{1} << 63;
