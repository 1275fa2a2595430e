// Power-off.
#include "core/power.h"

#include "arch/x86_64/acpi.h"
#include "arch/x86_64/io.h"
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
  const uint16_t control = acpi_info().power_control_port;
  if (control) out16(control, 1 << 13);  // SLP_EN with sleep type 0, which is S5 under QEMU
  halt_forever();
}
