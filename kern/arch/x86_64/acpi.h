// Processors, interrupt controllers and old devices, from ACPI's tables.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/cpu.h"
#include "lib/units.h"

struct AcpiInfo {
  PhysAddr local_apic{0xfee00000};
  unsigned cpu_count = 0;  // number of enabled CPUs, at most kMaxCpus, including the boot CPU
  uint8_t apic_ids[kMaxCpus] = {};

  struct IoApic {
    PhysAddr address;
    uint32_t first_interrupt;  // global system interrupt of the I/O APIC's input 0
  };
  static constexpr unsigned kMaxIoApics = 4;
  unsigned io_apic_count = 0;
  IoApic io_apics[kMaxIoApics] = {};

  struct Route {
    uint32_t interrupt = 0;  // global system interrupt
    bool low_active = false, level = false;
  };
  Route isa[16] = {};                   // the route of each ISA interrupt
  uint16_t power_control_port = 0;      // I/O port of the PM1a control block; 0 if unknown
  bool has_keyboard_controller = true;  // false: the machine has no i8042
};

// Reads ACPI's tables. Called once, while the boot page tables are active, because their direct map
// has all memory below 4 GiB.
void acpi_init(PhysAddr root_pointer);
const AcpiInfo& acpi_info();
