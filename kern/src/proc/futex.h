// Words of user memory that threads wait on. The theory is in futex.cc.
#pragma once

#include <cstdint>

#include "lib/result.h"
#include "lib/units.h"

class AddressSpace;

// By what a word is told from others: its address in the space, or the memory that it lies in.
enum class FutexScope : uint8_t { kProcess, kMemory };

// Sleeps while nobody wakes the word at `address` (a multiple of 4), if that holds `value`. EAGAIN
// if it does not; ETIMEDOUT, EINTR, EFAULT, EINVAL. `deadline` is of the monotonic clock. In the
// space of the current process.
Result<void> futex_wait(AddressSpace& space, uint64_t address, FutexScope scope, uint32_t value,
                        Nanoseconds deadline);
// Wakes at most `count` of those who wait, first come first; how many it were. EFAULT, EINVAL.
Result<uint32_t> futex_wake(AddressSpace& space, uint64_t address, FutexScope scope,
                            uint32_t count);
