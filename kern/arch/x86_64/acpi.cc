// ACPI: root pointer → root table → MADT (processors, interrupt controllers), FADT (power, timer)
// and HPET. ACPI specification 6.4, sections 5.2.5 to 5.2.12. This file reads static tables only;
// it executes no AML. But it searches the DSDT for the package _S5, which is constant data in
// practice.
#include "arch/x86_64/acpi.h"

#include "arch/x86_64/cpu_setup.h"
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

constexpr uint64_t kFourGiB = uint64_t{1} << 32;  // the boot page tables map less

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

// The sum of all bytes of a table is 0.
bool sums_to_zero(const void* table, size_t size) {
  const auto* const bytes = static_cast<const uint8_t*>(table);
  uint8_t sum = 0;
  for (size_t i = 0; i < size; i++) sum = static_cast<uint8_t>(sum + bytes[i]);
  return sum == 0;
}

// The checksum covers the first 20 bytes.
const RootPointer* root_at(uint64_t address) {
  constexpr size_t kSummed = 20;
  const auto* const root = at<RootPointer>(address);
  return memcmp(root->signature, "RSD PTR ", 8) == 0 && sums_to_zero(root, kSummed) ? root
                                                                                    : nullptr;
}

const RootPointer* scan(uint64_t start, uint64_t end) {
  for (uint64_t address = start; address < end; address += 16) {
    if (const RootPointer* const root = root_at(address)) return root;
  }
  return nullptr;
}

const RootPointer* find_root(PhysAddr hint) {
  if (hint.value) {
    if (const RootPointer* const root = root_at(hint.value)) return root;
  }
  const uint64_t extended_bios_data = uint64_t{*at<uint16_t>(0x40e)} << 4;
  if (const RootPointer* root = scan(extended_bios_data, extended_bios_data + 1024)) return root;
  return scan(0xe0000, 0x100000);
}

constexpr uint32_t kCpuEnabled = 1;

void add_cpu(uint32_t apic_id, uint32_t flags) {
  if (!(flags & kCpuEnabled) || info.cpu_count == kMaxCpus) return;
  for (unsigned i = 0; i < info.cpu_count; i++) {
    if (info.apic_ids[i] == apic_id) return;  // some firmware lists a CPU in both formats
  }
  info.apic_ids[info.cpu_count++] = apic_id;
}

void parse_madt(const Header& madt) {
  const auto* p = reinterpret_cast<const uint8_t*>(&madt);
  const uint8_t* end = p + madt.length;
  info.local_apic = {load<uint32_t>(p + 36)};
  for (p += 44; p + 2 <= end && p[1] >= 2; p += p[1]) {
    switch (p[0]) {
      case 0:  // processor
        add_cpu(p[3], load<uint32_t>(p + 4));
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
      case 9:  // processor with an ID of 32 bits
        add_cpu(load<uint32_t>(p + 4), load<uint32_t>(p + 8));
        break;
    }
  }
}

// A generic address structure: address space, width, offset, access size, address.
AcpiRegister load_register(const uint8_t* from) {
  constexpr uint8_t kMemory = 0, kPort = 1;
  const uint8_t space = from[0];
  const uint64_t address = load<uint64_t>(from + 4);
  if (space != kMemory && space != kPort) return {};
  return {space == kPort, address};
}

// Reads an integer constant of AML.
const uint8_t* parse_integer(const uint8_t* p, uint8_t& value) {
  constexpr uint8_t kBytePrefix = 0x0a, kOne = 1;
  if (*p == kBytePrefix) {
    value = p[1];
    return p + 2;
  }
  value = *p == kOne ? 1 : 0;
  return p + 1;
}

// Finds Name(_S5, Package {a, b, ...}) in the DSDT: NameOp, optionally a root prefix, the name,
// PackageOp, the package's length, the number of elements, the elements (ACPI 6.4, section 20.2).
void parse_sleep_types(const Header& dsdt) {
  constexpr uint8_t kNameOp = 0x08, kRoot = '\\', kPackageOp = 0x12;
  constexpr size_t kShortest = 9;  // bytes of the name and the package with two elements
  const auto* const start = reinterpret_cast<const uint8_t*>(&dsdt);
  const uint8_t* const end = start + dsdt.length;
  for (const uint8_t* p = start + sizeof(Header) + 2; p + kShortest <= end; p++) {
    if (memcmp(p, "_S5_", 4) != 0 || p[4] != kPackageOp) continue;
    if (p[-1] != kNameOp && !(p[-1] == kRoot && p[-2] == kNameOp)) continue;
    p += 5;
    p += (*p >> 6) + 1;  // the first byte of the length says how many bytes follow
    p++;
    p = parse_integer(p, info.power.sleep_types[0]);
    parse_integer(p, info.power.sleep_types[1]);
    return;
  }
}

// Offsets in the FADT, from section 5.2.9. Before revision 3, the table does not say whether there
// is an i8042.
void parse_fadt(const Header& table) {
  constexpr uint32_t kResetFlag = 1 << 10, kWideTimerFlag = 1 << 8, kReducedFlag = 1 << 20;
  constexpr uint16_t kKeyboardController = 1 << 1;
  const auto* const p = reinterpret_cast<const uint8_t*>(&table);
  const uint32_t flags = load<uint32_t>(p + 112);
  const bool is_reduced = table.length >= 256 && (flags & kReducedFlag);
  AcpiPower& power = info.power;
  if (table.length >= 129 && (flags & kResetFlag)) {
    power.reset = load_register(p + 116);
    power.reset_value = p[128];
  }
  if (is_reduced) {
    power.sleep = load_register(p + 244);
  } else {
    power.control_ports[0] = static_cast<uint16_t>(load<uint32_t>(p + 64));
    power.control_ports[1] = static_cast<uint16_t>(load<uint32_t>(p + 68));
    power.command_port = static_cast<uint16_t>(load<uint32_t>(p + 48));
    power.enable_command = p[52];
    info.pm_timer_port = static_cast<uint16_t>(load<uint32_t>(p + 76));
    info.pm_timer_mask = flags & kWideTimerFlag ? UINT32_MAX : 0xffffff;
  }
  const uint64_t wide = table.length >= 148 ? load<uint64_t>(p + 140) : 0;
  const uint64_t dsdt = wide != 0 ? wide : load<uint32_t>(p + 40);
  if (dsdt != 0 && dsdt < kFourGiB) parse_sleep_types(*at<Header>(dsdt));
  if (table.revision >= 3 && table.length >= 111)
    info.has_keyboard_controller = load<uint16_t>(p + 109) & kKeyboardController;
}

bool is_sound(const Header& table) {
  constexpr uint32_t kLongest = 16 << 20;
  return table.length >= sizeof(Header) && table.length <= kLongest &&
         sums_to_zero(&table, table.length);
}

void parse(const Header& table) {
  if (memcmp(table.signature, "APIC", 4) == 0) parse_madt(table);
  if (memcmp(table.signature, "FACP", 4) == 0) parse_fadt(table);
  if (memcmp(table.signature, "HPET", 4) == 0) {
    const AcpiRegister hpet = load_register(reinterpret_cast<const uint8_t*>(&table) + 40);
    if (!hpet.is_port) info.hpet = {hpet.address};
  }
}

// Firmware or boot loader may have overwritten a table. Such a table is ignored.
void parse_tables(const RootPointer& root) {
  const bool wide = root.revision >= 2 && root.xsdt != 0;
  const auto* const table = at<Header>(wide ? root.xsdt : root.rsdt);
  if (!is_sound(*table)) {
    klog("acpi: the list of tables is damaged; one CPU, no interrupt controller");
    return;
  }
  const auto* const entries = reinterpret_cast<const uint8_t*>(table + 1);
  const size_t entry_size = wide ? 8 : 4;
  const size_t count = (table->length - sizeof(Header)) / entry_size;
  for (size_t i = 0; i < count; i++) {
    const uint8_t* const entry = entries + i * entry_size;
    const uint64_t address = wide ? load<uint64_t>(entry) : load<uint32_t>(entry);
    if (address == 0 || address >= kFourGiB) continue;
    const auto& found = *at<Header>(address);
    if (is_sound(found)) {
      parse(found);
    } else {
      klog("acpi: the table at 0x%lx is damaged", address);
    }
  }
}

}  // namespace

void acpi_init(PhysAddr root_pointer) {
  for (unsigned i = 0; i < 16; i++) info.isa[i] = {i, false, false};
  if (const RootPointer* const root = find_root(root_pointer)) {
    parse_tables(*root);
  } else {
    klog("acpi: no tables; one CPU, no interrupt controller");
  }
  if (info.cpu_count == 0) add_cpu(initial_apic_id(), kCpuEnabled);
}

const AcpiInfo& acpi_info() {
  return info;
}
