// Stands in for kern/include/core/spinlock.h on the host: threads are the CPUs, and there are no
// interrupts.
#pragma once

#include <sched.h>

#include <atomic>

#include "core/lock_rank.h"
#include "lib/thread_annotations.h"

class CAPABILITY("spinlock") Spinlock {
 public:
  constexpr explicit Spinlock(LockRank rank) : rank_(rank) {}
  Spinlock(const Spinlock&) = delete;
  Spinlock& operator=(const Spinlock&) = delete;

  void lock() ACQUIRE() {
    while (taken_.exchange(true, std::memory_order_acquire)) sched_yield();
  }
  bool try_lock() TRY_ACQUIRE(true) { return !taken_.exchange(true, std::memory_order_acquire); }
  void unlock() RELEASE() { taken_.store(false, std::memory_order_release); }
  bool lock_in_hook() TRY_ACQUIRE(true) { return try_lock(); }
  void unlock_in_hook() RELEASE() { unlock(); }
  LockRank rank() const { return rank_; }

 private:
  std::atomic<bool> taken_{false};
  const LockRank rank_;
};

class SCOPED_CAPABILITY Guard {
 public:
  explicit Guard(Spinlock& lock) ACQUIRE(lock) : lock_(lock) { lock_.lock(); }
  ~Guard() RELEASE() { lock_.unlock(); }
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;

 private:
  Spinlock& lock_;
};

class TryGuard {
 public:
  explicit TryGuard(Spinlock& lock) NO_THREAD_SAFETY_ANALYSIS : lock_(lock),
                                                                held_(lock.try_lock()) {}
  ~TryGuard() NO_THREAD_SAFETY_ANALYSIS {
    if (held_) lock_.unlock();
  }
  TryGuard(const TryGuard&) = delete;
  TryGuard& operator=(const TryGuard&) = delete;
  explicit operator bool() const { return held_; }

 private:
  Spinlock& lock_;
  const bool held_;
};
