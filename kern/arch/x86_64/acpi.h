// Processors, interrupt controllers, clocks, power and old devices, from ACPI's tables.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/cpu.h"
#include "lib/units.h"

// A register in ACPI's tables: an I/O port or an address in memory. `address` 0: no register.
struct AcpiRegister {
  bool is_port = false;
  uint64_t address = 0;
};

// Where and how the FADT and the DSDT say that the machine is turned off and reset.
struct AcpiPower {
  uint16_t control_ports[2] = {};  // PM1a and PM1b control; 0: none
  uint16_t command_port = 0;       // SMI command port; 0: ACPI is always enabled
  uint8_t enable_command = 0;      // enables ACPI; written to the command port
  uint8_t sleep_types[2] = {};     // values of PM1a and PM1b control for state S5
  AcpiRegister sleep;              // sleep control register, on machines without PM1 registers
  AcpiRegister reset;
  uint8_t reset_value = 0;
};

struct AcpiInfo {
  PhysAddr local_apic{0xfee00000};
  unsigned cpu_count = 0;  // number of enabled CPUs, at most kMaxCpus, including the boot CPU
  uint32_t apic_ids[kMaxCpus] = {};

  struct IoApic {
    PhysAddr address;
    uint32_t first_interrupt;  // global system interrupt of the I/O APIC's input 0
  };
  static constexpr unsigned kMaxIoApics = 16;
  unsigned io_apic_count = 0;
  IoApic io_apics[kMaxIoApics] = {};

  struct Route {
    uint32_t interrupt = 0;  // global system interrupt
    bool low_active = false, level = false;
  };
  Route isa[16] = {};  // the route of each ISA interrupt

  uint16_t pm_timer_port = 0;  // 0: no power management timer
  uint32_t pm_timer_mask = 0;  // the timer counts from this value to 0
  PhysAddr hpet{};             // registers of the HPET; 0: none
  AcpiPower power;
  bool has_keyboard_controller = true;  // false: the machine has no i8042
};

// Reads ACPI's tables. Called once, while the boot page tables are active, because their direct map
// has all memory below 4 GiB.
void acpi_init(PhysAddr root_pointer);
const AcpiInfo& acpi_info();
