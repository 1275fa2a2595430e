// Replaces kern/arch/x86_64/paging.h on the host. The direct map begins at a fixed address, at
// which host::memory_start() (cpus.h) maps anonymous memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "lib/units.h"

#ifdef __SANITIZE_THREAD__
inline constexpr uint64_t kDirectMapBase = 0x4000000000;  // ThreadSanitizer allows mappings here
#else
inline constexpr uint64_t kDirectMapBase = 0x400000000000;  // below AddressSanitizer's heap
#endif
inline constexpr uint64_t kKernelVirtualBase =
    0xffffc00000000000;  // never mapped: any access faults
inline constexpr uint64_t kKernelVirtualSize = uint64_t{1} << 40;
inline constexpr uint64_t kKernelVirtualReserved = 0;

inline void* direct_map(PhysAddr address) {
  return reinterpret_cast<void*>(kDirectMapBase + address.value);
}
inline PhysAddr direct_map_phys(const void* address) {
  return {reinterpret_cast<uint64_t>(address) - kDirectMapBase};
}
