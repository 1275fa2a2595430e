// Words of user memory that threads wait for. The theory is in futex.cc.
#pragma once

#include <cstdint>

#include "lib/result.h"
#include "lib/units.h"

class AddressSpace;

// The identity of a word: its address in the space, or the physical memory that it lies in.
enum class FutexScope : uint8_t { kProcess, kMemory };

// Sleeps until the word at `address` (a multiple of 4) is woken, if it holds `value`. EAGAIN
// otherwise; ETIMEDOUT, EINTR, EFAULT, EINVAL. `deadline` is of the monotonic clock. In the space
// of the current process.
Result<void> futex_wait(AddressSpace& space, uint64_t address, FutexScope scope, uint32_t value,
                        Nanoseconds deadline);
// Wakes at most `count` waiters, in order of arrival. Returns how many. EFAULT, EINVAL.
Result<uint32_t> futex_wake(AddressSpace& space, uint64_t address, FutexScope scope,
                            uint32_t count);
