// A spinlock for the tracer's hooks, which run at each traced allocation and free. A hook takes the
// lock in the fewest instructions. The lock can be closed to hooks.
//
// If the lock is taken, lock_in_hook() fails and does not wait. The hook then uses its slow path,
// which calls lock(). If the lock is closed, lock_in_hook() fails, too, so all hooks use their slow
// path. A special case that needs the slow path closes the lock, and costs the fast path nothing: a
// hook tests only the bit kLockedBit of the lock's word, which is set in a closed lock, too.
//
// A build that checks ranks, and host tests, have a simpler lock_in_hook(): it waits for the lock
// and then tests whether the lock is closed.
#pragma once

#include "core/spinlock.h"

class CAPABILITY("spinlock") HookLock : public Spinlock {
 public:
  using Spinlock::Spinlock;

  bool try_lock() TRY_ACQUIRE(true);
  void unlock() RELEASE();
  // For a hook. Nothing else can run on this CPU before the hook has ended. So this function saves
  // two instructions: it does not count the held lock, and does not store this CPU's number. False
  // if the lock is taken or closed.
  bool lock_in_hook() TRY_ACQUIRE(true);
  void unlock_in_hook() RELEASE();

  // Closes or opens the lock to hooks. Takes effect with the next unlock().
  void set_closed(bool closed) REQUIRES(this) {
    __atomic_store_n(&closed_, closed ? kClosed >> 16 : 0, __ATOMIC_RELAXED);
  }
  // True if the lock was closed when it was last unlocked, or is held and will be closed. A guess
  // unless the lock is held.
  bool is_closed() const { return __atomic_load_n(&closed_, __ATOMIC_RELAXED) != 0; }

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
  bool was_free;  // asm, because fetch_or would load the operand's address into a register
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
