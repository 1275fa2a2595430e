// Spinlocks. A CPU keeps interrupts off while it holds a spinlock. So an interrupt handler never
// interrupts a holder on its own CPU, and may take any spinlock. Code that holds a spinlock is
// short and bounded and never sleeps.
#pragma once

#include <atomic>
#include <cstdint>

#include "arch/x86_64/interrupts.h"
#ifndef STELE_HOST
#include "core/cpu.h"
#endif
#include "core/irq_off.h"
#include "core/lock_rank.h"
#include "lib/thread_annotations.h"

class CAPABILITY("spinlock") Spinlock {
 public:
  constexpr explicit Spinlock(LockRank rank) : rank_(rank) {}
  Spinlock(const Spinlock&) = delete;
  Spinlock& operator=(const Spinlock&) = delete;

  // Interrupts must be off. Most code uses Guard, which turns interrupts off and then calls lock().
  void lock() ACQUIRE();
  bool try_lock() TRY_ACQUIRE(true);
  void unlock() RELEASE();
  // True if this CPU holds the lock. Without CONFIG_LOCK_RANK_CHECK, false for a lock that
  // HookLock::lock_in_hook() took, because that function does not store the CPU's number.
  bool held() const;
  // Tells the thread-safety analysis that the lock is held, for code where the analysis cannot see
  // the lock. Examples are a lambda that is called with the lock held, and the scope of a TryGuard
  // that holds the lock.
  void known_held() const ASSERT_CAPABILITY(this) {}
  // Tells the analysis to accept accesses without the lock. Called where no other code can reach
  // the guarded data, no other CPU runs, or each access is atomic by itself.
  void not_needed() const ASSERT_CAPABILITY(this) {}
  LockRank rank() const { return rank_; }

 protected:
  static constexpr unsigned kLockedBit = 30;
  static constexpr uint32_t kLocked = uint32_t{1} << kLockedBit;
  // The value of `owner_` in a HookLock that is free but closed to hooks (hook_lock.h).
  static constexpr uint32_t kClosed = kLocked | uint32_t{1} << 29;

  // 0 or kClosed: the lock is free. kLocked | (n + 1): CPU n holds the lock. kLocked alone:
  // HookLock::lock_in_hook() took the lock.
  std::atomic<uint32_t> owner_{0};
  static bool is_free(uint32_t owner) { return owner == 0 || owner == kClosed; }
  void spin();  // waits until the lock is free, and takes it

  const LockRank rank_;
};

#if !defined(CONFIG_LOCK_RANK_CHECK) && !defined(STELE_HOST)
inline void Spinlock::lock() {
  Cpu& cpu = this_cpu();
  uint32_t expected = 0;
  if (!owner_.compare_exchange_strong(expected, kLocked | (number_of(cpu.id) + 1),
                                      std::memory_order_acquire, std::memory_order_relaxed))
      [[unlikely]] {
    spin();
  }
  cpu.held_locks++;
}

inline void Spinlock::unlock() {
  this_cpu().held_locks--;
  owner_.store(0, std::memory_order_release);
}

#endif

// Holds a lock, with interrupts off, for the life of a scope. `Lock` is the lock's exact type,
// because lock() and unlock() are not virtual.
template <typename Lock = Spinlock>
class SCOPED_CAPABILITY Guard {
 public:
  IRQ_OFF_INLINE explicit Guard(Lock& lock) ACQUIRE(lock) : lock_(lock) { lock_.lock(); }
  IRQ_OFF_INLINE ~Guard() RELEASE() { lock_.unlock(); }
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;

 private:
  InterruptsOff off_;  // constructed first, destroyed last
  Lock& lock_;
};

// Takes the lock if it is free, and holds it, with interrupts off, for the life of a scope. If the
// lock is not free, only keeps interrupts off. `operator bool` is true if the lock is held; the
// analysis does not see this, so the caller then calls known_held().
template <typename Lock = Spinlock>
class TryGuard {
 public:
  IRQ_OFF_INLINE explicit TryGuard(Lock& lock) : lock_(lock), held_(lock.try_lock()) {}
  IRQ_OFF_INLINE ~TryGuard() {
    if (held_) lock_.unlock();
  }
  TryGuard(const TryGuard&) = delete;
  TryGuard& operator=(const TryGuard&) = delete;
  explicit operator bool() const { return held_; }

 private:
  InterruptsOff off_;  // constructed first, destroyed last
  Lock& lock_;
  const bool held_;
};
