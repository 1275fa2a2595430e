// A spinlock that hooks take in the fewest instructions, and that can be closed to them.
//
// A hook that finds it taken does not wait: it goes the long way, by lock(). While the lock is
// closed all hooks do, so that what only the long way knows of costs the short one nothing: the
// word of a closed lock is never 0, which is what a hook looks for. In a build that checks ranks,
// and in the host's tests, a hook waits and then asks.
#pragma once

#include "core/spinlock.h"

class CAPABILITY("spinlock") HookLock : public Spinlock {
 public:
  using Spinlock::Spinlock;

  bool try_lock() TRY_ACQUIRE(true);
  void unlock() RELEASE();
  // For a hook, which is over before anything else can happen on this CPU: not counted, and without
  // this CPU's number, which takes two instructions. False if the lock is taken, or closed.
  bool lock_in_hook() TRY_ACQUIRE(true);
  void unlock_in_hook() RELEASE();

  // From the next unlock() on.
  void set_closed(bool closed) REQUIRES(this) { closed_ = closed ? kClosed >> 16 : 0; }

 private:
  uint16_t closed_ = 0;  // the upper half of what the lock is when it is free
};
static_assert(sizeof(HookLock) == sizeof(Spinlock), "hooks touch two lines of a shard");

#if !defined(CONFIG_LOCK_RANK_CHECK) && !defined(STELE_HOST)
inline void HookLock::unlock() {
  this_cpu().held_locks--;
  owner_.store(uint32_t{closed_} << 16, std::memory_order_release);
}
#else
inline bool HookLock::try_lock() {
  return Spinlock::try_lock();
}

inline void HookLock::unlock() {
  Spinlock::unlock();
}
#endif

#if !defined(CONFIG_LOCK_RANK_CHECK) && (!defined(STELE_HOST) || defined(STELE_BENCH))
inline bool HookLock::lock_in_hook() {
  bool was_free;  // as fetch_or, whose operand the compiler loads the address of
  asm volatile("lock btsl %2, %0" : "+m"(owner_), "=@ccnc"(was_free) : "i"(kLockedBit) : "memory");
  return was_free;
}

inline void HookLock::unlock_in_hook() {
  owner_.store(0, std::memory_order_release);
}
#else
inline bool HookLock::lock_in_hook() {
  lock();
  if (closed_ == 0) return true;
  unlock();
  return false;
}

inline void HookLock::unlock_in_hook() {
  unlock();
}
#endif
