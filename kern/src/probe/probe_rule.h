// The actions of hits: one rule for each probed function. Plain data.
#pragma once

#include <cstdint>

// Arguments are numbered from 1, as in commands; 0: none.
inline constexpr unsigned kProbeArguments = 6;

// The arguments with a call's size and object.
struct ProbeAllocRule {
  uint8_t size = 0;
  uint8_t factor = 0;  // second argument: the size is the product of both
  uint8_t old = 0;     // the object that is freed when the call succeeds
  // Argument with the object's address, if the call returns 0; 0: the call returns the object.
  uint8_t result = 0;
  bool operator==(const ProbeAllocRule&) const = default;
};

// Bits of ProbeRule::actions.
inline constexpr uint8_t kProbeCounts = 1;
inline constexpr uint8_t kProbeCallEvent = 2;
inline constexpr uint8_t kProbeReturnEvent = 4;
inline constexpr uint8_t kProbeAllocates = 8;
inline constexpr uint8_t kProbeFrees = 16;
// Used alone: counts by kernel stack, without a context or filters.
inline constexpr uint8_t kProbeCountsPlainly = 32;

struct ProbeRule {
  uint8_t actions;
  bool user;             // of a program
  ProbeAllocRule alloc;  // for kProbeAllocates
  uint8_t address;       // for kProbeFrees: the argument that is the object
  const char* name;      // of the function; lives as long as the session
};
