// Serialises the use of an open file's offset.
//
// Chan::offset_hold is 0 (free), 1 (held) or 2 (held, and somebody may wait). A call on a file that
// nobody else uses takes two atomic operations. All waiters share one queue. If a release finds the
// value 2, it wakes all waiters, and each waiter checks its own file again. This costs little,
// because the value 2 is rare.
//
// Programs expect that signals do not interrupt calls on files with an offset. So only a signal
// that ends the process interrupts the wait.
#include <utility>

#include "arch/x86_64/time.h"
#include "core/sleep.h"
#include "ns/namespace.h"
#include "proc/process.h"

namespace {

enum Hold : uint8_t { kFree, kHeld, kWaitedFor };

// If a waiter has a pending signal, it checks at this interval whether its process is ending.
constexpr Nanoseconds kLook{100'000'000};

constinit Spinlock waiters_lock{LockRank::kDevice};
constinit WaitQueue waiters;

// Waits until the caller holds the offset. EINTR if the caller's process is ending.
Result<void> wait(Chan& chan) {
  const auto taken = [&chan] {
    return chan.offset_hold.exchange(kWaitedFor, std::memory_order_acquire) == kFree;
  };
  for (;;) {
    {
      const Guard guard(waiters_lock);
      if (waiters.wait(waiters_lock, taken)) return {};
    }
    if (process_is_ending()) return Errno::EINTR;
    const Guard guard(waiters_lock);
    if (waiters.wait_uninterruptible(waiters_lock, taken, monotonic_now() + kLook)) return {};
  }
}

}  // namespace

Result<void> OffsetHold::take(Chan& chan) {
  if (!chan.device->one_offset()) return {};
  uint8_t expected = kFree;
  if (!chan.offset_hold.compare_exchange_strong(expected, kHeld, std::memory_order_acquire))
    TRY(wait(chan));
  chan_ = &chan;
  return {};
}

OffsetHold::~OffsetHold() {
  if (!chan_ || chan_->offset_hold.exchange(kFree, std::memory_order_release) != kWaitedFor) return;
  const Guard guard(waiters_lock);
  waiters.wake_all();
}
