// The queue lies in memory that driver and device share. Descriptors describe memory ranges. In the
// available ring the driver lists chains of descriptors; in the used ring the device lists the
// chains that it is done with. Slot s always uses descriptors 2s (the request, which the device
// reads) and 2s + 1 (the reply, which the device writes), so descriptors need no allocation.
//
// transact() holds the lock while it fills one chain. The interrupt handler holds the lock while it
// processes the new entries of the used ring. There are at most kSlots entries if the device keeps
// to the protocol; a faulty device can report more.

#include "drivers/virtio/virtio.h"

#include <atomic>

#include "arch/x86_64/io.h"
#include "arch/x86_64/paging.h"
#include "arch/x86_64/time.h"
#include "arch/x86_64/trap.h"
#include "core/cpu.h"
#include "drivers/virtio/pci.h"
#include "kmalloc.h"
#include "lib/string.h"
#include "proc/process.h"

namespace {

constexpr uint16_t kVendor = 0x1af4;

// Registers, as offsets from the device's first port.
enum Register : uint16_t {
  kDeviceFeatures = 0,
  kGuestFeatures = 4,
  kQueuePage = 8,
  kQueueSize = 12,
  kQueueSelect = 14,
  kQueueNotify = 16,
  kStatus = 18,
  kQueueVector = 22,   // exists only while MSI-X is on
  kDeviceConfig = 24,  // has this offset while MSI-X is on
};
enum Status : uint8_t { kAcknowledge = 1, kDriver = 2, kDriverOk = 4 };
enum DescriptorFlag : uint16_t { kNext = 1, kDeviceWrites = 2 };
constexpr uint16_t kNoVector = 0xffff;

constexpr Nanoseconds kSilence{
    60'000'000'000};                       // callers give up after this time without an answer
constexpr Nanoseconds kLook{100'000'000};  // time between two checks whether the process is ending

}  // namespace

Result<void> VirtioChannel::start(uint16_t device_id, uint32_t features, uint8_t vector,
                                  const char* name) {
  const std::optional<PciFunction> function = pci_find(kVendor, device_id);
  if (!function) return Errno::ENODEV;
  pci_enable(*function);
  port_ = pci_port_base(*function, 0);
  if (!port_) return Errno::ENODEV;
  out8(port_ + kStatus, 0);
  out8(port_ + kStatus, kAcknowledge);
  out8(port_ + kStatus, kAcknowledge | kDriver);
  if ((in32(port_ + kDeviceFeatures) & features) != features) return Errno::ENODEV;
  out32(port_ + kGuestFeatures, features);
  TRY(pci_enable_msix(*function, vector, cpu(kBootCpu).apic_id));
  TRY(interrupt_register_vector(
      vector, name,
      [](TrapFrame&, void* argument) { static_cast<VirtioChannel*>(argument)->on_interrupt(); },
      this));
  TRY(set_up_queue());
  out8(port_ + kStatus, kAcknowledge | kDriver | kDriverOk);
  return {};
}

Result<void> VirtioChannel::set_up_queue() {
  out16(port_ + kQueueSelect, 0);
  size_ = in16(port_ + kQueueSize);
  if (size_ < 2 * kSlots) return Errno::ENODEV;
  const size_t used_at =
      align_up(sizeof(Descriptor) * size_ + sizeof(uint16_t) * (3 + size_), kPageSize);
  const size_t bytes =
      align_up(used_at + sizeof(uint16_t) * 3 + sizeof(UsedElement) * size_, kPageSize);
  auto* const memory = static_cast<char*>(kmalloc(bytes, KM_SLEEP | KM_ZERO));
  if (!memory) return Errno::ENOMEM;
  descriptors_ = reinterpret_cast<Descriptor*>(memory);
  available_ = reinterpret_cast<volatile uint16_t*>(memory + sizeof(Descriptor) * size_);
  used_header_ = reinterpret_cast<volatile uint16_t*>(memory + used_at);
  used_ = reinterpret_cast<volatile UsedElement*>(memory + used_at + 2 * sizeof(uint16_t));
  out32(port_ + kQueuePage, static_cast<uint32_t>(direct_map_phys(memory).value / kPageSize));
  out16(port_ + kQueueVector, 0);
  return in16(port_ + kQueueVector) == kNoVector ? Result<void>(Errno::ENODEV) : Result<void>();
}

uint8_t VirtioChannel::config(unsigned offset) const {
  return in8(static_cast<uint16_t>(port_ + kDeviceConfig + offset));
}

// Sleeps until condition() is true. Calls condition() with the lock held. EINTR, ETIMEDOUT.
template <typename Condition>
Result<void> VirtioChannel::wait(WaitQueue& queue, Condition condition) {
  const Nanoseconds end = monotonic_now() + kSilence;
  for (;;) {
    const Nanoseconds look = monotonic_now() + kLook;
    {
      Guard guard(lock_);
      if (queue.wait_uninterruptible(lock_, condition, look)) return {};
    }
    if (process_is_ending()) return Errno::EINTR;
    if (look >= end) return Errno::ETIMEDOUT;
  }
}

Result<unsigned> VirtioChannel::acquire() {
  unsigned free = 0;
  TRY(wait(free_slots_, [&]() REQUIRES(lock_) {
    for (unsigned i = 0; i < kSlots; ++i) {
      free = (next_slot_ + i) % kSlots;
      if (slots_[free].state != SlotState::kFree) continue;
      slots_[free].state = SlotState::kTaken;
      next_slot_ = (free + 1) % kSlots;
      return true;
    }
    return false;
  }));
  return free;
}

void VirtioChannel::release(unsigned slot) {
  Guard guard(lock_);
  if (slots_[slot].state == SlotState::kAbandoned) return;
  slots_[slot].state = SlotState::kFree;
  free_slots_.wake_one();
}

Result<size_t> VirtioChannel::transact(unsigned slot, const void* request, size_t request_size,
                                       void* reply, size_t reply_size) {
  {
    Guard guard(lock_);
    const auto head = static_cast<uint16_t>(2 * slot), tail = static_cast<uint16_t>(2 * slot + 1);
    descriptors_[head] = {direct_map_phys(request).value, static_cast<uint32_t>(request_size),
                          kNext, tail};
    descriptors_[tail] = {direct_map_phys(reply).value, static_cast<uint32_t>(reply_size),
                          kDeviceWrites, 0};
    slots_[slot].state = SlotState::kSent;
    const uint16_t index = available_[1];
    available_[2 + index % size_] = head;
    std::atomic_thread_fence(std::memory_order_release);
    available_[1] = static_cast<uint16_t>(index + 1);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    out16(port_ + kQueueNotify, 0);
  }
  const auto answered = [&]()
                            REQUIRES(lock_) { return slots_[slot].state == SlotState::kAnswered; };
  const Result<void> waited = wait(replies_, answered);
  Guard guard(lock_);
  if (answered()) return slots_[slot].length;
  slots_[slot].state = SlotState::kAbandoned;
  return waited.error();
}

// The device is not trusted. A reported slot may be one that was not sent, or one that the device
// has reported before. At most kSlots requests are out, and none is sent while the lock is held, so
// a correct device reports at most kSlots in one call.
void VirtioChannel::on_interrupt() {
  Guard guard(lock_);
  for (unsigned i = 0; i < kSlots && used_seen_ != used_header_[1]; ++i) {
    std::atomic_thread_fence(std::memory_order_acquire);
    volatile UsedElement& element = used_[used_seen_ % size_];
    ++used_seen_;
    Slot& slot = slots_[element.id / 2 % kSlots];
    slot.length = element.length;
    if (slot.state == SlotState::kSent) {
      slot.state = SlotState::kAnswered;
    } else if (slot.state == SlotState::kAbandoned) {
      slot.state = SlotState::kFree;
      free_slots_.wake_one();
    }
  }
  replies_.wake_all();
}
