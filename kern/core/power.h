// Power-off and reset.
#pragma once

#include <cstdint>

// Values for QEMU's isa-debug-exit; QEMU ends with 2 * value + 1.
enum class ExitCode : uint8_t {
  kOff = 0x00,
  kTestsPassed = 0x10,
  kTestsFailed = 0x11,
  kPanic = 0x21
};
// Ends QEMU after the serial ports have sent everything. Without QEMU's device, powers off by ACPI
// or halts; halts after a panic if there is a screen, which then keeps the message. Any context.
[[noreturn]] void power_off(ExitCode code);
// Stops the machine if it has QEMU's device pvpanic, until the host lets it go on; the host can
// read its memory meanwhile. Otherwise does nothing. Any context.
void power_pause();
// Resets the machine after the serial ports have sent everything. Any context.
[[noreturn]] void power_reset();
