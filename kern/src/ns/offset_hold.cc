// Who uses the offset of an open file.
//
// Chan::offset_hold is 0 (free), 1 (held) or 2 (held, and somebody may wait), so that a call whose
// file nobody else uses takes two atomic operations. Those that wait share one queue: each release
// that finds a 2 wakes all of them, which is seldom, and they look at their own file again.
#include <utility>

#include "core/sleep.h"
#include "ns/namespace.h"

namespace {

enum Hold : uint8_t { kFree, kHeld, kWaitedFor };

constinit Spinlock waiters_lock{LockRank::kDevice};
constinit WaitQueue waiters;

}  // namespace

Result<void> OffsetHold::take(Chan& chan) {
  if (!chan.device->one_offset()) return {};
  uint8_t expected = kFree;
  if (!chan.offset_hold.compare_exchange_strong(expected, kHeld, std::memory_order_acquire)) {
    const Guard guard(waiters_lock);
    TRY(waiters.wait(waiters_lock, [&chan] {
      return chan.offset_hold.exchange(kWaitedFor, std::memory_order_acquire) == kFree;
    }));
  }
  chan_ = &chan;
  return {};
}

OffsetHold::~OffsetHold() {
  if (!chan_ || chan_->offset_hold.exchange(kFree, std::memory_order_release) != kWaitedFor) return;
  const Guard guard(waiters_lock);
  waiters.wake_all();
}
