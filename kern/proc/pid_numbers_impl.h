// The numbers of processes, groups and sessions.
#pragma once

#include <cstdint>

#include "intern/context.h"
#include "lib/result.h"

// Says which numbers from 1 to kMaxPid are in use. A number is in use as long as it has a user: the
// process whose PID it is, and each process whose group or session it names. The caller has a lock
// for the whole object.
class PidNumbers {
 public:
  // Returns the next number that is not in use, after the one that was returned last; begins again
  // at 1 after kMaxPid. The number gets its first user. EAGAIN if all are in use. Takes time for at
  // most kWords words, however many numbers are in use.
  Result<uint32_t> take();
  // Adds a user to a number that is in use.
  void add_user(uint32_t number) { users_[number]++; }
  // Removes a user; without a user, the number is free.
  void drop_user(uint32_t number);
  // Returns the smallest number above `number` that is in use; 0 if there is none.
  uint32_t next_used(uint32_t number) const;
  // How often take() has begun again at 1.
  uint32_t wraps() const { return wraps_; }

 private:
  static constexpr uint32_t kWords = kMaxPid / 64 + 1;
  // A bit for each number in use. The bit of 0, which is no PID, is set, too.
  uint64_t used_[kWords] = {1};
  // A number has at most 2 * kMaxPid + 1 users.
  uint16_t users_[kMaxPid + 1] = {};
  uint32_t last_ = 0;
  uint32_t wraps_ = 0;

  static_assert(kMaxPid % 64 == 63, "all bits are numbers");
  static_assert(2 * kMaxPid + 1 <= UINT16_MAX);
};
