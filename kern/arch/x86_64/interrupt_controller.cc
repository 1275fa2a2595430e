// Interrupt controllers.
//
// A local APIC is in one of two modes. In xAPIC mode its registers are in memory. In x2APIC mode
// they are model-specific registers; IDs have 32 bits (Intel SDM volume 3, section 11.12). The
// kernel uses the mode that the firmware has left: the way back from x2APIC leads through a reset,
// and an xAPIC is enough for 64 CPUs. The firmware chooses x2APIC if IDs do not fit in 8 bits.
#include "arch/x86_64/interrupt_controller.h"

#include "arch/x86_64/acpi.h"
#include "arch/x86_64/fixed_devices_impl.h"
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
  kInService = 0x100,
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

constexpr uint64_t kApicEnable = 1 << 11, kApicX2 = 1 << 10;
constexpr uint32_t kMsrX2Apic = 0x800;  // the MSR of the register at 0 in memory

constinit bool is_x2apic = false;

volatile uint32_t& in_memory(uint32_t reg) {
  return *fixed_device<volatile uint32_t>(FixedDevice::kLocalApic, {reg});
}
uint32_t read_local(uint32_t reg) {
  return is_x2apic ? static_cast<uint32_t>(read_msr(kMsrX2Apic + reg / 16)) : in_memory(reg);
}
void write_local(uint32_t reg, uint32_t value) {
  if (is_x2apic) {
    write_msr(kMsrX2Apic + reg / 16, value);
  } else {
    in_memory(reg) = value;
  }
}

// In x2APIC mode a message needs one write, and there is no bit for a pending message. The write
// may pass earlier stores, unlike a write to the registers in memory (section 11.12.3); mfence and
// lfence prevent this.
void send_x2apic(uint32_t apic_id, uint32_t low) {
  asm volatile("mfence; lfence" ::: "memory");
  write_msr(kMsrX2Apic + kCommandLow / 16, uint64_t{apic_id} << 32 | low);
}

void wait_until_sent() {
  while (in_memory(kCommandLow) & kPending) cpu_relax();
}

// An NMI between the two writes does no harm: the NMI's handler does not change the destination,
// and waits until the APIC has sent.
void command(uint32_t apic_id, uint32_t low) {
  if (is_x2apic) return send_x2apic(apic_id, low);
  const InterruptsOff off;
  wait_until_sent();
  in_memory(kCommandHigh) = apic_id << 24;
  in_memory(kCommandLow) = low;
}

// Ends interrupts that the firmware or the boot loader has left in service; otherwise the APIC
// would never deliver an interrupt of the same or a lower priority.
void end_old_interrupts() {
  constexpr unsigned kVectors = 256;
  for (unsigned i = 0; i < kVectors; i++) {
    bool any = false;
    for (uint32_t word = 0; word < kVectors / 32; word++) any |= read_local(kInService + 16 * word);
    if (!any) return;
    write_local(kEndOfInterrupt, 0);
  }
}

constinit Spinlock io_lock{LockRank::kInterrupts};

volatile uint32_t* io_registers(unsigned n) {
  return fixed_device<volatile uint32_t>(io_apic_device(n), acpi_info().io_apics[n].address);
}
uint32_t io_read(unsigned n, uint32_t reg) {
  auto* base = io_registers(n);
  base[0] = reg;
  return base[4];
}
void io_write(unsigned n, uint32_t reg, uint32_t value) {
  auto* base = io_registers(n);
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
  const uint64_t base = read_msr(kMsrApicBase);
  is_x2apic = is_x2apic || (base & kApicX2);
  write_msr(kMsrApicBase, base | kApicEnable);
  if (is_x2apic) write_msr(kMsrApicBase, base | kApicEnable | kApicX2);
  write_local(kTaskPriority, 0);
  write_local(kLvtTimer, kMasked);
  write_local(kLvtLint0, kMasked);
  write_local(kLvtLint1, kDeliveryNmi);
  write_local(kLvtError, kMasked);
  write_local(kSpurious, 0x100 | kVectorSpurious);
  end_old_interrupts();
}

bool local_apic_has_wide_ids() {
  return is_x2apic;
}

uint32_t local_apic_id() {
  return is_x2apic ? read_local(kId) : read_local(kId) >> 24;
}
void local_apic_end_of_interrupt() {
  write_local(kEndOfInterrupt, 0);
}
void local_apic_send(uint32_t apic_id, uint8_t vector) {
  command(apic_id, kAssert | vector);
}
void local_apic_send_nmi_to_others() {
  constexpr uint32_t kMessage = kAllButSelf | kAssert | kDeliveryNmi;  // needs no destination
  if (is_x2apic) return send_x2apic(0, kMessage);
  const InterruptsOff off;
  wait_until_sent();
  in_memory(kCommandLow) = kMessage;
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
  write_local(kTimerDivide, kDivideBy16);
  write_local(kLvtTimer, kMasked);
  write_local(kTimerInitial, UINT32_MAX);
}
uint32_t local_apic_timer_left() {
  return read_local(kTimerCurrent);
}
void local_apic_timer_periodic(uint32_t count) {
  write_local(kTimerDivide, kDivideBy16);
  write_local(kLvtTimer, kPeriodic | kVectorTimer);
  write_local(kTimerInitial, count);
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
