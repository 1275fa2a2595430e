// Power-off and reset.
#include "core/power.h"

#include "arch/x86_64/io.h"
#include "arch/x86_64/machine_power.h"
#include "core/screen.h"
#include "core/uart.h"

void power_off(ExitCode code) {
  asm volatile("cli");
  uart_drain();
  if (code == ExitCode::kPanic) {
    // QEMU's pvpanic device, which may stop the guest for a dump; other machines ignore the write.
    // The guest stops at cpu_relax(). Without cpu_relax(), QEMU's translator would run the next
    // out8() before the stop.
    out8(0x505, 1);
    cpu_relax();
  }
  out8(0xf4, static_cast<uint8_t>(code));  // QEMU's isa-debug-exit; ignored elsewhere
  if (code == ExitCode::kPanic && screen_present()) halt_forever();  // the message stays visible
  acpi_power_off();
  halt_forever();
}

void power_reset() {
  asm volatile("cli");
  uart_drain();
  machine_reset();
}
