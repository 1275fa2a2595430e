// PCI configuration space by ports 0xcf8 and 0xcfc (PCI Local Bus Specification 3.0,
// section 3.2.2.3.2).
#pragma once

#include <cstdint>
#include <optional>

#include "lib/result.h"
#include "lib/units.h"

struct PciFunction {
  uint8_t bus, device, function;
};

// The first function with these ids on any bus; nothing if there is none. At boot, one CPU at a
// time.
std::optional<PciFunction> pci_find(uint16_t vendor, uint16_t device);

uint32_t pci_read(PciFunction function, uint8_t offset);  // `offset` is a multiple of 4
void pci_write(PciFunction function, uint8_t offset, uint32_t value);
// Lets the function answer on its ports and memory and be master of the bus.
void pci_enable(PciFunction function);
// The first port of base address register `index`; 0 if that is not a range of ports.
uint16_t pci_port_base(PciFunction function, unsigned index);
// The memory that base address register `index` stands for; 0 if it stands for none.
PhysAddr pci_memory_base(PciFunction function, unsigned index);
// Turns MSI-X on with its message number 0 sent as `vector` to the CPU with local APIC `apic_id`,
// the others masked. ENODEV if the function cannot, ENOMEM. Interrupts on.
Result<void> pci_enable_msix(PciFunction function, uint8_t vector, uint32_t apic_id);
