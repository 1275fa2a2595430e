// The actions of hits: one rule for each probed function. Plain data.
#pragma once

#include <cstdint>

// The number of arguments that a rule can name. They are numbered from 1, as in commands; 0 means
// none.
inline constexpr unsigned kProbeArguments = 6;

// Numbers of the arguments that have the size and the object of an allocation.
struct ProbeAllocRule {
  uint8_t size = 0;
  uint8_t factor = 0;  // a second argument, by which the size is multiplied
  uint8_t old = 0;     // the object that is freed when the call succeeds
  // 0 if the call returns the object's address. Otherwise the number of the argument that points to
  // the word with the object's address. This word is read only if the call returns 0 (success).
  uint8_t result = 0;
  bool operator==(const ProbeAllocRule&) const = default;
};

// Bits of ProbeRule::actions.
inline constexpr uint8_t kProbeCounts = 1;
inline constexpr uint8_t kProbeCallEvent = 2;
inline constexpr uint8_t kProbeReturnEvent = 4;
inline constexpr uint8_t kProbeAllocates = 8;
inline constexpr uint8_t kProbeFrees = 16;
// Used without other bits: counts by kernel stack, without a context or filters.
inline constexpr uint8_t kProbeCountsPlainly = 32;

struct ProbeRule {
  uint8_t actions;
  bool user;             // the function is a program's
  ProbeAllocRule alloc;  // used by kProbeAllocates
  uint8_t address;       // used by kProbeFrees: number of the argument with the object
  const char* name;      // name of the function; lives as long as the session
};
