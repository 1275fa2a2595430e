// A driver for virtio devices with one queue, which carries requests and replies. Uses the legacy
// PCI interface (Virtual I/O Device 1.1, sections 2.6, 4.1.4.8).
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/spinlock.h"
#include "lib/result.h"
#include "sched/task.h"

// A device may fail to answer. A caller gives up with EINTR when its process is ending, and with
// ETIMEDOUT after a minute. An abandoned slot is not reused until the answer comes, because until
// that time the device may write to the slot's reply buffer.
class VirtioChannel {
 public:
  static constexpr unsigned kSlots = 4;  // concurrent requests

  constexpr VirtioChannel() = default;

  // Finds and starts the device with this transitional PCI device id. The device must offer
  // `features`. `vector` is the vector of the device's interrupts. ENODEV if there is no such
  // device, ENOMEM. Once. May sleep.
  Result<void> start(uint16_t device_id, uint32_t features, uint8_t vector, const char* name);
  // Reads byte number `offset` of the device's own configuration.
  uint8_t config(unsigned offset) const;

  // Sleeps until a slot is free, and takes one: 0..kSlots-1, in rotation. EINTR, ETIMEDOUT.
  Result<unsigned> acquire();
  // Gives up the slot. Called once for each acquire(), whether transact() succeeded or failed.
  void release(unsigned slot);
  // Sends `request` and sleeps until the device has put its answer into `reply`. Returns the size
  // of the answer; the size comes from the device and is not checked. `request` and `reply` are
  // contiguous memory of the direct map. The caller holds the slot. Called once for each acquire().
  // EINTR, ETIMEDOUT.
  Result<size_t> transact(unsigned slot, const void* request, size_t request_size, void* reply,
                          size_t reply_size);

 private:
  struct Descriptor {
    uint64_t address;
    uint32_t length;
    uint16_t flags, next;
  };
  struct UsedElement {
    uint32_t id, length;
  };
  enum class SlotState : uint8_t { kFree, kTaken, kSent, kAnswered, kAbandoned };
  struct Slot {
    SlotState state;
    uint32_t length;
  };

  void on_interrupt();
  template <typename Condition>
  Result<void> wait(WaitQueue& queue, Condition condition);
  Result<void> set_up_queue();

  // Only start() writes these.
  uint16_t port_ = 0;
  uint16_t size_ = 0;  // number of descriptors of the queue
  Descriptor* descriptors_ = nullptr;
  volatile uint16_t* available_ = nullptr;    // flags, index, ring
  volatile uint16_t* used_header_ = nullptr;  // flags, index
  volatile UsedElement* used_ = nullptr;

  Spinlock lock_{LockRank::kDevice};
  // `lock_` guards the rings and the following fields.
  Slot slots_[kSlots] GUARDED_BY(lock_) = {};
  unsigned next_slot_ GUARDED_BY(lock_) = 0;  // where the search for a free slot begins
  uint16_t used_seen_ GUARDED_BY(lock_) = 0;  // number of used-ring entries processed; wraps
  WaitQueue free_slots_, replies_;
};
