// Access to the PCI configuration space through the ports 0xcf8 and 0xcfc (PCI Local Bus
// Specification 3.0, section 3.2.2.3.2).
#pragma once

#include <cstdint>
#include <optional>

#include "lib/result.h"
#include "lib/units.h"

struct PciFunction {
  uint8_t bus, device, function;
};

// Finds the first function with these ids on any bus; nothing if there is none. Called at boot, by
// one CPU at a time.
std::optional<PciFunction> pci_find(uint16_t vendor, uint16_t device);

uint32_t pci_read(PciFunction function, uint8_t offset);  // `offset` is a multiple of 4
void pci_write(PciFunction function, uint8_t offset, uint32_t value);
// Enables access to the function's ports and memory, and lets the function do DMA (bus mastering).
void pci_enable(PciFunction function);
// Returns the first port in base address register `index`; 0 if the register maps no ports.
uint16_t pci_port_base(PciFunction function, unsigned index);
// Returns the memory address in base address register `index`; 0 if the register maps no memory.
PhysAddr pci_memory_base(PciFunction function, unsigned index);
// Enables MSI-X: message 0 is sent as `vector` to the CPU with local APIC `apic_id`; all other
// messages are masked. ENODEV if the function has no MSI-X, ENOMEM. Interrupts on.
Result<void> pci_enable_msix(PciFunction function, uint8_t vector, uint32_t apic_id);
