// Power-off and reset.
#include "core/power.h"

#include "arch/x86_64/io.h"
#include "arch/x86_64/machine_power.h"
#include "core/screen.h"
#include "core/uart.h"

// Other machines ignore the write to the port of QEMU's pvpanic device. The guest stops at
// cpu_relax(). Without cpu_relax(), QEMU's translator would run the following instructions before
// the stop.
void power_pause() {
  out8(0x505, 1);
  cpu_relax();
}

void power_off(ExitCode code) {
  asm volatile("cli");
  uart_drain();
  if (code == ExitCode::kPanic) power_pause();  // for a dump
  out8(0xf4, static_cast<uint8_t>(code));       // QEMU's isa-debug-exit; ignored elsewhere
  if (code == ExitCode::kPanic && screen_present()) halt_forever();  // the message stays visible
  acpi_power_off();
  halt_forever();
}

void power_reset() {
  asm volatile("cli");
  uart_drain();
  machine_reset();
}
