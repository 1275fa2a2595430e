// Registers of devices that the kernel uses before its allocator is up, or in a panic. Each device
// has a page at the start of the kernel's virtual range; paging_init() maps the pages.
#pragma once

#include <cstdint>

#include "arch/x86_64/acpi.h"
#include "arch/x86_64/paging.h"

enum class FixedDevice : uint8_t {
  kLocalApic = 0,
  kIoApic = 1,  // and the following pages, one for each I/O APIC
  kHpet = kIoApic + AcpiInfo::kMaxIoApics,
  kSleep,  // ACPI's sleep control register
  kReset,  // ACPI's reset register
  kEnd
};

// Returns where the register at `physical` is mapped. The register lies in the page of the device.
template <typename Register>
Register* fixed_device(FixedDevice device, PhysAddr physical) {
  const uint64_t page = kKernelVirtualBase + static_cast<uint64_t>(device) * kPageSize;
  return reinterpret_cast<Register*>(page + physical.value % kPageSize);
}
inline FixedDevice io_apic_device(unsigned n) {
  return static_cast<FixedDevice>(static_cast<unsigned>(FixedDevice::kIoApic) + n);
}
