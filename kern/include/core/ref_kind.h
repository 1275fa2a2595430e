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

// What a CPU counts of a kind. It changes each with a single instruction, so that a task may be
// anywhere between two.
struct RefCounts {
  uint64_t taken;  // with kRefTraced while the kind is traced: whoever counts sees it by the sign
  uint64_t put;    // with kRefTraced while there is a trace
};
inline constexpr uint64_t kRefTraced = uint64_t{1} << 63;
