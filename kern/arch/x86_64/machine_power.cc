#include "arch/x86_64/machine_power.h"

#include <cstdint>

#include "arch/x86_64/acpi.h"
#include "arch/x86_64/fixed_devices_impl.h"
#include "arch/x86_64/io.h"

namespace {

constexpr uint16_t kSciEnable = 1 << 0, kSleepEnable = 1 << 13;
constexpr unsigned kSleepTypeShift = 10, kReducedTypeShift = 2;
constexpr uint16_t kSleepType = 7 << kSleepTypeShift;
constexpr uint8_t kReducedEnable = 1 << 5;
// Reads of a port, each about a microsecond: the time that a chipset gets to react.
constexpr unsigned kPatience = 1'000'000, kResetPatience = 100'000;
constexpr uint16_t kDelayPort = 0x80;

void wait(unsigned reads) {
  for (unsigned i = 0; i < reads; i++) in8(kDelayPort);
}

void write_register(const AcpiRegister& reg, FixedDevice device, uint8_t value) {
  if (reg.is_port) {
    out8(static_cast<uint16_t>(reg.address), value);
  } else {
    *fixed_device<volatile uint8_t>(device, {reg.address}) = value;
  }
}

// Firmware may have left the power registers to itself until the operating system takes them.
void enable_acpi(const AcpiPower& power) {
  if (power.command_port == 0 || power.enable_command == 0) return;
  if (in16(power.control_ports[0]) & kSciEnable) return;
  out8(power.command_port, power.enable_command);
  for (unsigned i = 0; i < kPatience && !(in16(power.control_ports[0]) & kSciEnable); i++)
    cpu_relax();
}

}  // namespace

void acpi_power_off() {
  const AcpiPower& power = acpi_info().power;
  if (power.sleep.address != 0) {
    write_register(
        power.sleep, FixedDevice::kSleep,
        static_cast<uint8_t>(power.sleep_types[0] << kReducedTypeShift) | kReducedEnable);
    wait(kPatience);
  }
  if (power.control_ports[0] == 0) return;
  enable_acpi(power);
  for (unsigned i = 0; i < 2; i++) {
    const uint16_t port = power.control_ports[i];
    if (port == 0) continue;
    const uint16_t type = static_cast<uint16_t>(power.sleep_types[i] << kSleepTypeShift);
    const uint16_t kept = in16(port) & static_cast<uint16_t>(~(kSleepType | kSleepEnable));
    out16(port, kept | (type & kSleepType) | kSleepEnable);
  }
  wait(kPatience);
}

void machine_reset() {
  const AcpiPower& power = acpi_info().power;
  if (power.reset.address != 0) {
    write_register(power.reset, FixedDevice::kReset, power.reset_value);
    wait(kResetPatience);
  }
  constexpr uint16_t kChipset = 0xcf9, kKeyboard = 0x64;
  constexpr uint8_t kHardReset = 0x06, kPulseReset = 0xfe;
  out8(kChipset, 0x02);
  out8(kChipset, kHardReset);
  wait(kResetPatience);
  out8(kKeyboard, kPulseReset);
  wait(kResetPatience);
  const struct [[gnu::packed]] {
    uint16_t limit = 0;
    uint64_t base = 0;
  } no_interrupts;
  asm volatile("lidt %0; int3" ::"m"(no_interrupts));
  halt_forever();
}
