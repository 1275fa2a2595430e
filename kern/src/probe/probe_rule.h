// What a hit does: one rule for each probed function. Plain data.
#pragma once

#include <cstdint>

// Arguments are numbered from 1, as users number them; 0: none.
inline constexpr unsigned kProbeArguments = 6;

// Where a call's size and object are.
struct ProbeAllocRule {
  uint8_t size = 0;
  uint8_t factor = 0;  // the size is the product of the two
  uint8_t old = 0;     // the object that is freed when the call succeeds
  // The object is where this argument points, if the call returns 0; 0: the call returns it.
  uint8_t result = 0;
  bool operator==(const ProbeAllocRule&) const = default;
};

// Bits of ProbeRule::actions.
inline constexpr uint8_t kProbeCounts = 1;
inline constexpr uint8_t kProbeCallEvent = 2;
inline constexpr uint8_t kProbeReturnEvent = 4;
inline constexpr uint8_t kProbeAllocates = 8;
inline constexpr uint8_t kProbeFrees = 16;
// Alone: counts by kernel stack, without a context and for everybody.
inline constexpr uint8_t kProbeCountsPlainly = 32;

struct ProbeRule {
  uint8_t actions;
  bool user;             // the function is a program's
  ProbeAllocRule alloc;  // of kProbeAllocates
  uint8_t address;       // of kProbeFrees: the argument that is the object
  const char* name;      // of the function; lives as long as the session
};
