// Turning the machine off, and resetting it.
#pragma once

// Enters ACPI's state S5, as the FADT and the DSDT say (ACPI 6.4, sections 4.8.3.7 and 16.1.7).
// Returns if the machine has no such registers, or does not turn off. Interrupts off.
void acpi_power_off();
// Resets the machine: by the FADT's reset register, by the chipset's reset register at 0xcf9, by
// the keyboard controller, and finally by a triple fault. Interrupts off.
[[noreturn]] void machine_reset();
