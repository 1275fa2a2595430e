// Spinlocks. Taking a spinlock turns interrupts off on this CPU until the lock is released, so that
// an interrupt handler may take any lock. Code under a spinlock is short and bounded and never
// sleeps.
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

  // Interrupts must be off. Use Guard.
  void lock() ACQUIRE();
  bool try_lock() TRY_ACQUIRE(true);
  void unlock() RELEASE();
  // True if this CPU holds the lock. False for a lock that HookLock::lock_in_hook() took.
  bool held() const;
  // Tells the thread-safety analysis that the lock is held where the analysis cannot see that: in a
  // function that a template calls with the lock held, and inside a TryGuard.
  void known_held() const ASSERT_CAPABILITY(this) {}
  // Tells the analysis that the lock is not needed: no other code can reach the guarded data, or no
  // other CPU runs.
  void not_needed() const ASSERT_CAPABILITY(this) {}
  LockRank rank() const { return rank_; }

 protected:
  static constexpr unsigned kLockedBit = 30;
  static constexpr uint32_t kLocked = uint32_t{1} << kLockedBit;
  // The value of a HookLock that is closed and free.
  static constexpr uint32_t kClosed = kLocked | uint32_t{1} << 29;

  // 0 or kClosed when free, otherwise kLocked and the CPU's number + 1; a hook omits the number.
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

// Holds a lock, with interrupts off, for the life of a scope. `Lock` is the lock's exact type.
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

// Holds a lock as Guard does if the lock is free; otherwise only keeps interrupts off. The analysis
// cannot follow a scoped lock that may not be held, so a caller that has the lock calls
// known_held().
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
