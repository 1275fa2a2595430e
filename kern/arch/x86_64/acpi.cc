// ACPI: root pointer → root table → MADT (processors, interrupt controllers) and FADT (power). ACPI
// specification 6.4, sections 5.2.5 to 5.2.12. This file reads static tables only; it executes no
// AML.
#include "arch/x86_64/acpi.h"

#include "arch/x86_64/paging.h"
#include "core/log.h"
#include "lib/string.h"

namespace {

struct [[gnu::packed]] RootPointer {
  char signature[8];
  uint8_t checksum;
  char oem[6];
  uint8_t revision;
  uint32_t rsdt;
  uint32_t length;
  uint64_t xsdt;
};

struct [[gnu::packed]] Header {
  char signature[4];
  uint32_t length;
  uint8_t revision, checksum;
  char oem[6], oem_table[8];
  uint32_t oem_revision, creator, creator_revision;
};

constinit AcpiInfo info;

template <typename T>
const T* at(uint64_t physical) {
  return static_cast<const T*>(direct_map({physical}));
}
template <typename T>
T load(const uint8_t* from) {
  T value;
  memcpy(&value, from, sizeof(T));
  return value;
}

const RootPointer* scan(uint64_t start, uint64_t end) {
  for (uint64_t address = start; address < end; address += 16) {
    if (memcmp(at<char>(address), "RSD PTR ", 8) == 0) return at<RootPointer>(address);
  }
  return nullptr;
}

const RootPointer* find_root(PhysAddr hint) {
  if (hint.value && memcmp(at<char>(hint.value), "RSD PTR ", 8) == 0)
    return at<RootPointer>(hint.value);
  const uint64_t extended_bios_data = uint64_t{*at<uint16_t>(0x40e)} << 4;
  if (const RootPointer* root = scan(extended_bios_data, extended_bios_data + 1024)) return root;
  return scan(0xe0000, 0x100000);
}

void parse_madt(const Header& madt) {
  const auto* p = reinterpret_cast<const uint8_t*>(&madt);
  const uint8_t* end = p + madt.length;
  info.local_apic = {load<uint32_t>(p + 36)};
  for (p += 44; p + 2 <= end && p[1] >= 2; p += p[1]) {
    switch (p[0]) {
      case 0:  // processor
        if ((load<uint32_t>(p + 4) & 1) && info.cpu_count < kMaxCpus)
          info.apic_ids[info.cpu_count++] = p[3];
        break;
      case 1:  // I/O APIC
        if (info.io_apic_count < AcpiInfo::kMaxIoApics) {
          info.io_apics[info.io_apic_count++] = {{load<uint32_t>(p + 4)}, load<uint32_t>(p + 8)};
        }
        break;
      case 2: {  // interrupt source override
        const uint16_t flags = load<uint16_t>(p + 8);
        if (p[3] < 16)
          info.isa[p[3]] = {load<uint32_t>(p + 4), (flags & 3) == 3, ((flags >> 2) & 3) == 3};
        break;
      }
      case 5:  // local APIC address
        info.local_apic = {load<uint64_t>(p + 4)};
        break;
    }
  }
}

// Before revision 3, the table does not say whether there is an i8042.
void parse_fadt(const Header& fadt) {
  constexpr uint16_t kKeyboardController = 1 << 1;
  constexpr uint32_t kBootFlags = 109;
  const auto* p = reinterpret_cast<const uint8_t*>(&fadt);
  info.power_control_port = static_cast<uint16_t>(load<uint32_t>(p + 64));
  if (fadt.revision >= 3 && fadt.length >= kBootFlags + sizeof(uint16_t))
    info.has_keyboard_controller = load<uint16_t>(p + kBootFlags) & kKeyboardController;
}

void parse(const Header& table) {
  if (memcmp(table.signature, "APIC", 4) == 0) parse_madt(table);
  if (memcmp(table.signature, "FACP", 4) == 0) parse_fadt(table);
}

}  // namespace

void acpi_init(PhysAddr root_pointer) {
  for (unsigned i = 0; i < 16; i++) info.isa[i] = {i, false, false};
  const RootPointer* root = find_root(root_pointer);
  if (!root) {
    klog("acpi: no tables; one CPU, no interrupt controller");
    return;
  }
  const bool wide = root->revision >= 2 && root->xsdt != 0;
  const auto* table = at<Header>(wide ? root->xsdt : root->rsdt);
  const auto* entries = reinterpret_cast<const uint8_t*>(table + 1);
  const size_t entry_size = wide ? 8 : 4;
  const size_t count = (table->length - sizeof(Header)) / entry_size;
  for (size_t i = 0; i < count; i++) {
    const uint8_t* entry = entries + i * entry_size;
    const uint64_t address = wide ? load<uint64_t>(entry) : load<uint32_t>(entry);
    if (address != 0 && address < uint64_t{1} << 32) parse(*at<Header>(address));
  }
}

const AcpiInfo& acpi_info() {
  return info;
}
