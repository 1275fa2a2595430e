// Interrupt controllers. paging_init has mapped their registers at the start of the kernel's
// virtual range: a page for the local APIC first, then a page for each I/O APIC.
#include "arch/x86_64/interrupt_controller.h"

#include "arch/x86_64/acpi.h"
#include "arch/x86_64/interrupts.h"
#include "arch/x86_64/io.h"
#include "arch/x86_64/paging.h"
#include "arch/x86_64/trap.h"
#include "core/cpu.h"
#include "core/spinlock.h"

namespace {

enum LocalRegister : uint32_t {
  kId = 0x20,
  kTaskPriority = 0x80,
  kEndOfInterrupt = 0xb0,
  kSpurious = 0xf0,
  kCommandLow = 0x300,
  kCommandHigh = 0x310,
  kLvtTimer = 0x320,
  kLvtLint0 = 0x350,
  kLvtLint1 = 0x360,
  kLvtError = 0x370,
  kTimerInitial = 0x380,
  kTimerCurrent = 0x390,
  kTimerDivide = 0x3e0,
};
constexpr uint32_t kMasked = 1 << 16, kPeriodic = 1 << 17, kDeliveryNmi = 4 << 8,
                   kDeliveryInit = 5 << 8, kDeliveryStartup = 6 << 8, kPending = 1 << 12,
                   kAssert = 1 << 14, kAllButSelf = 3 << 18, kDivideBy16 = 3;

volatile uint32_t& local(uint32_t reg) {
  return *reinterpret_cast<volatile uint32_t*>(kKernelVirtualBase + reg);
}

void wait_until_sent() {
  while (local(kCommandLow) & kPending) cpu_relax();
}

// An NMI between the two writes does no harm: the NMI's handler does not change the destination,
// and waits until the APIC has sent.
void command(uint32_t apic_id, uint32_t low) {
  const InterruptsOff off;
  wait_until_sent();
  local(kCommandHigh) = apic_id << 24;
  local(kCommandLow) = low;
}

constinit Spinlock io_lock{LockRank::kInterrupts};

uint32_t io_read(unsigned n, uint32_t reg) {
  auto* base = reinterpret_cast<volatile uint32_t*>(kKernelVirtualBase + kPageSize * (1 + n));
  base[0] = reg;
  return base[4];
}
void io_write(unsigned n, uint32_t reg, uint32_t value) {
  auto* base = reinterpret_cast<volatile uint32_t*>(kKernelVirtualBase + kPageSize * (1 + n));
  base[0] = reg;
  base[4] = value;
}
unsigned io_inputs(unsigned n) {
  return (io_read(n, 1) >> 16 & 0xff) + 1;
}

}  // namespace

void interrupt_controllers_init() {
  // Moves the interrupts of the 8259s to unused vectors, then masks them.
  for (const uint16_t port : {0x20, 0xa0}) {
    out8(port, 0x11);
    out8(port + 1, port == 0x20 ? 0xe0 : 0xe8);
    out8(port + 1, port == 0x20 ? 4 : 2);
    out8(port + 1, 1);
    out8(port + 1, 0xff);
  }
  for (unsigned n = 0; n < acpi_info().io_apic_count; n++) {
    for (unsigned input = 0; input < io_inputs(n); input++) io_write(n, 0x10 + 2 * input, kMasked);
  }
  local_apic_init();
}

void local_apic_init() {
  write_msr(kMsrApicBase, read_msr(kMsrApicBase) | 1 << 11);
  local(kTaskPriority) = 0;
  local(kLvtTimer) = kMasked;
  local(kLvtLint0) = kMasked;
  local(kLvtLint1) = kDeliveryNmi;
  local(kLvtError) = kMasked;
  local(kSpurious) = 0x100 | kVectorSpurious;
}

uint32_t local_apic_id() {
  return local(kId) >> 24;
}
void local_apic_end_of_interrupt() {
  local(kEndOfInterrupt) = 0;
}
void local_apic_send(uint32_t apic_id, uint8_t vector) {
  command(apic_id, kAssert | vector);
}
void local_apic_send_nmi_to_others() {
  const InterruptsOff off;
  wait_until_sent();
  local(kCommandLow) = kAllButSelf | kAssert | kDeliveryNmi;  // needs no destination
  wait_until_sent();
}
void local_apic_send_init(uint32_t apic_id) {
  command(apic_id, kAssert | kDeliveryInit);
}
void local_apic_send_startup(uint32_t apic_id, uint8_t page) {
  command(apic_id, kAssert | kDeliveryStartup | page);
}

void interrupt_raise_self(uint8_t vector) {
  const InterruptsOff off;
  command(local_apic_id(), kAssert | vector);
}

void local_apic_timer_run() {
  local(kTimerDivide) = kDivideBy16;
  local(kLvtTimer) = kMasked;
  local(kTimerInitial) = UINT32_MAX;
}
uint32_t local_apic_timer_left() {
  return local(kTimerCurrent);
}
void local_apic_timer_periodic(uint32_t count) {
  local(kTimerDivide) = kDivideBy16;
  local(kLvtTimer) = kPeriodic | kVectorTimer;
  local(kTimerInitial) = count;
}

Result<void> io_apic_route_isa(unsigned irq, uint8_t vector) {
  const AcpiInfo::Route& route = acpi_info().isa[irq];
  for (unsigned n = 0; n < acpi_info().io_apic_count; n++) {
    const Guard guard(io_lock);
    const uint32_t first = acpi_info().io_apics[n].first_interrupt;
    if (route.interrupt < first || route.interrupt >= first + io_inputs(n)) continue;
    const uint32_t reg = 0x10 + 2 * (route.interrupt - first);
    io_write(n, reg + 1, cpu(kBootCpu).apic_id << 24);
    io_write(n, reg, vector | (route.low_active ? 1 << 13 : 0) | (route.level ? 1 << 15 : 0));
    return {};
  }
  return Errno::ENODEV;
}
