// Futexes: words of user memory on which threads wait. The theory is in futex.cc.
#pragma once

#include <cstdint>

#include "lib/result.h"
#include "lib/units.h"

class AddressSpace;

// Two ways to identify a word: by its address in the process's space (kProcess), or by its physical
// address (kMemory), which is the same for all processes that share the memory.
enum class FutexScope : uint8_t { kProcess, kMemory };

// If the word at `address` (a multiple of 4) holds `value`, sleeps until futex_wake() wakes this
// waiter; EAGAIN if the word holds another value. ETIMEDOUT, EINTR, EFAULT, EINVAL, ENOMEM.
// `deadline` is a time of the monotonic clock. `space` is the space of the current process.
Result<void> futex_wait(AddressSpace& space, uint64_t address, FutexScope scope, uint32_t value,
                        Nanoseconds deadline);
// Wakes at most `count` waiters, in order of arrival. Returns the number of woken waiters. EFAULT,
// EINVAL, ENOMEM, EINTR.
Result<uint32_t> futex_wake(AddressSpace& space, uint64_t address, FutexScope scope,
                            uint32_t count);
