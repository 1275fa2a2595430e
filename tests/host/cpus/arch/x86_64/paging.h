// Stands in for kern/arch/x86_64/paging.h on the host: the direct map is a mapping of anonymous
// memory at a fixed address.
#pragma once

#include <cstddef>
#include <cstdint>

#include "lib/units.h"

#ifdef __SANITIZE_THREAD__
inline constexpr uint64_t kDirectMapBase = 0x4000000000;  // where ThreadSanitizer looks at memory
#else
inline constexpr uint64_t kDirectMapBase = 0x500000000000;
#endif
inline constexpr uint64_t kKernelVirtualBase =
    0xffffc00000000000;  // not mapped: any access to it faults
inline constexpr uint64_t kKernelVirtualSize = uint64_t{1} << 40;
inline constexpr uint64_t kKernelVirtualReserved = 0;

inline void* direct_map(PhysAddr address) {
  return reinterpret_cast<void*>(kDirectMapBase + address.value);
}
inline PhysAddr direct_map_phys(const void* address) {
  return {reinterpret_cast<uint64_t>(address) - kDirectMapBase};
}
