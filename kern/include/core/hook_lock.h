// A spinlock that hooks take in the fewest instructions, and that can be closed to hooks.
//
// A hook that finds the lock taken does not wait in lock_in_hook(): the hook uses its slow path,
// which calls lock(). While the lock is closed, all hooks use their slow path. So a special case
// that only the slow path handles costs the fast path nothing: a hook tests the bit kLockedBit of
// the lock's word, and this bit is set in a closed lock, too. In a build that checks ranks, and in
// host tests, a hook waits for the lock and then tests whether it is closed.
#pragma once

#include "core/spinlock.h"

class CAPABILITY("spinlock") HookLock : public Spinlock {
 public:
  using Spinlock::Spinlock;

  bool try_lock() TRY_ACQUIRE(true);
  void unlock() RELEASE();
  // For a hook: nothing else can run on this CPU before the hook has ended. So this function
  // neither counts the held lock nor stores this CPU's number, which saves two instructions. False
  // if the lock is taken or closed.
  bool lock_in_hook() TRY_ACQUIRE(true);
  void unlock_in_hook() RELEASE();

  // Takes effect with the next unlock().
  void set_closed(bool closed) REQUIRES(this) { closed_ = closed ? kClosed >> 16 : 0; }

 private:
  uint16_t closed_ = 0;  // the upper half of owner_ while the lock is free
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
  bool was_free;  // fetch_or would load the operand's address into a register
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
