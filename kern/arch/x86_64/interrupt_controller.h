// Local APIC (one in each CPU) and I/O APICs (Intel SDM volume 3, chapter 11; 82093AA data sheet).
#pragma once

#include <cstdint>

#include "lib/result.h"

inline constexpr uint8_t kVectorTimer = 0xf8, kVectorCrossCall = 0xf9, kVectorReschedule = 0xfa,
                         kVectorSpurious = 0xff;

// Masks the old 8259s and all inputs of the I/O APICs, and turns this CPU's local APIC on. Called
// once, on the boot CPU.
void interrupt_controllers_init();
// Turns this CPU's local APIC on.
void local_apic_init();
// True if the local APICs are in x2APIC mode. Then IDs above 254 exist, and messages reach them.
bool local_apic_has_wide_ids();
uint32_t local_apic_id();
void local_apic_end_of_interrupt();
// Sends `vector` to the CPU with local APIC `apic_id`.
void local_apic_send(uint32_t apic_id, uint8_t vector);
// Sends an NMI to all other CPUs. An NMI's handler may call this function, no matter which code the
// NMI has interrupted.
void local_apic_send_nmi_to_others();
void local_apic_send_init(uint32_t apic_id);
void local_apic_send_startup(uint32_t apic_id, uint8_t page);
// The local APIC's timer. local_apic_timer_run: starts one countdown from 2^32-1 (for calibration).
// local_apic_timer_left: returns the remaining count. local_apic_timer_periodic: raises
// kVectorTimer every `count` ticks of the timer.
void local_apic_timer_run();
uint32_t local_apic_timer_left();
void local_apic_timer_periodic(uint32_t count);

// Routes ISA interrupt `irq` to the boot CPU, as `vector`. ENODEV if no I/O APIC has the line.
Result<void> io_apic_route_isa(unsigned irq, uint8_t vector);
