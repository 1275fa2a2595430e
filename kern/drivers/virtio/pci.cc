#include "drivers/virtio/pci.h"

#include "arch/x86_64/io.h"
#include "arch/x86_64/paging.h"
#include "arena.h"
#include "slab.h"

namespace {

constexpr uint16_t kAddressPort = 0xcf8, kDataPort = 0xcfc;
constexpr uint8_t kCommand = 0x04, kHeaderType = 0x0c, kBars = 0x10, kCapabilities = 0x34;
constexpr uint32_t kCommandIo = 1, kCommandMemory = 2, kCommandMaster = 4;
constexpr uint32_t kStatusHasCapabilities = 1u << 20;  // in the dword at kCommand
constexpr uint8_t kCapabilityMsix = 0x11;
constexpr uint32_t kMsixEnable = 1u << 31, kMsixMaskAll = 1u << 30;
constexpr uint32_t kMessageAddress = 0xfee00000;  // Intel SDM volume 3, section 11.11

uint32_t select(PciFunction f, uint8_t offset) {
  return 1u << 31 | uint32_t{f.bus} << 16 | uint32_t{f.device} << 11 | uint32_t{f.function} << 8 |
         (offset & 0xfc);
}

// Returns the offset of the capability with this id; 0 if there is none.
uint8_t find_capability(PciFunction function, uint8_t id) {
  if (!(pci_read(function, kCommand) & kStatusHasCapabilities)) return 0;
  uint8_t offset = pci_read(function, kCapabilities) & 0xfc;
  for (int i = 0; offset && i < 48; ++i) {
    const uint32_t head = pci_read(function, offset);
    if ((head & 0xff) == id) return offset;
    offset = head >> 8 & 0xfc;
  }
  return 0;
}

}  // namespace

uint32_t pci_read(PciFunction function, uint8_t offset) {
  out32(kAddressPort, select(function, offset));
  return in32(kDataPort);
}
void pci_write(PciFunction function, uint8_t offset, uint32_t value) {
  out32(kAddressPort, select(function, offset));
  out32(kDataPort, value);
}

std::optional<PciFunction> pci_find(uint16_t vendor, uint16_t device) {
  const uint32_t wanted = uint32_t{device} << 16 | vendor;
  for (unsigned bus = 0; bus < 256; ++bus) {
    for (unsigned slot = 0; slot < 32; ++slot) {
      PciFunction at = {static_cast<uint8_t>(bus), static_cast<uint8_t>(slot), 0};
      if ((pci_read(at, 0) & 0xffff) == 0xffff) continue;
      const bool several = pci_read(at, kHeaderType) & (1u << 23);
      for (unsigned function = 0; function < (several ? 8 : 1); ++function) {
        at.function = static_cast<uint8_t>(function);
        if (pci_read(at, 0) == wanted) return at;
      }
    }
  }
  return std::nullopt;
}

void pci_enable(PciFunction function) {
  const uint32_t command = pci_read(function, kCommand) & 0xffff;
  pci_write(function, kCommand, command | kCommandIo | kCommandMemory | kCommandMaster);
}

uint16_t pci_port_base(PciFunction function, unsigned index) {
  const uint32_t bar = pci_read(function, static_cast<uint8_t>(kBars + 4 * index));
  return bar & 1 ? static_cast<uint16_t>(bar & ~3u) : 0;
}

PhysAddr pci_memory_base(PciFunction function, unsigned index) {
  const uint32_t bar = pci_read(function, static_cast<uint8_t>(kBars + 4 * index));
  if (bar & 1) return {};
  const bool wide = (bar >> 1 & 3) == 2;
  const uint64_t high = wide ? pci_read(function, static_cast<uint8_t>(kBars + 4 * index + 4)) : 0;
  return {high << 32 | (bar & ~0xfu)};
}

Result<void> pci_enable_msix(PciFunction function, uint8_t vector, uint32_t apic_id) {
  const uint8_t capability = find_capability(function, kCapabilityMsix);
  if (!capability) return Errno::ENODEV;
  const uint32_t control = pci_read(function, capability),
                 table = pci_read(function, capability + 4);
  const PhysAddr base = pci_memory_base(function, table & 7);
  if (!base.value) return Errno::ENODEV;
  const uint64_t physical = base.value + (table & ~7u), in_page = physical % kPageSize;
  const unsigned messages = (control >> 16 & 0x7ff) + 1;
  const size_t size = align_up(in_page + messages * 16, kPageSize);

  void* const range = arena_alloc(kernel_virtual_arena, size, KM_SLEEP);
  if (!range) return Errno::ENOMEM;
  const uint64_t address = reinterpret_cast<uint64_t>(range);
  if (Result<void> mapped = map_kernel(address, {physical - in_page}, size, Access::kDevice);
      !mapped) {
    arena_free(kernel_virtual_arena, range, size);
    return mapped;
  }
  auto* const entries = reinterpret_cast<volatile uint32_t*>(address + in_page);
  pci_write(function, capability, control | kMsixEnable | kMsixMaskAll);
  for (unsigned i = 0; i < messages; ++i) entries[4 * i + 3] = 1;  // masked
  entries[0] = kMessageAddress | apic_id << 12;
  entries[1] = 0;
  entries[2] = vector;
  entries[3] = 0;
  pci_write(function, capability, (control | kMsixEnable) & ~kMsixMaskAll);
  unmap_kernel(address, size);
  arena_free(kernel_virtual_arena, range, size);
  return {};
}
