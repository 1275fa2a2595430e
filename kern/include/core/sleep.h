// Sleeping: how any layer above the spinlocks waits. The scheduler makes it happen
// (src/sched/wait.cc); before there is one, a Mutex is only taken where nobody holds it.
#pragma once

#include "core/cpu.h"
#include "core/spinlock.h"
#include "core/task_head.h"
#include "lib/result.h"
#include "lib/units.h"

// Sleeps; EINTR if interrupted.
Result<void> task_sleep_until(Nanoseconds deadline);

// Where tasks wait for something to become true.
class WaitQueue {
 public:
  constexpr WaitQueue() = default;
  // Sleeps until condition() is true. `guard_lock` protects what the condition reads: it is held by
  // the caller when called and on return, and dropped while asleep. Interruptible: EINTR when a
  // signal waits (the lock is held then too). Deadline: ETIMEDOUT.
  template <typename Condition>
  Result<void> wait(Spinlock& guard_lock, Condition condition, Nanoseconds deadline = {UINT64_MAX})
      REQUIRES(guard_lock) NO_THREAD_SAFETY_ANALYSIS {
    while (!condition()) {
      TRY(sleep(guard_lock, true, deadline));
    }
    return {};
  }
  template <typename Condition>
  void wait_uninterruptible(Spinlock& guard_lock, Condition condition)
      REQUIRES(guard_lock) NO_THREAD_SAFETY_ANALYSIS {
    while (!condition()) static_cast<void>(sleep(guard_lock, false, {UINT64_MAX}));
  }
  // The same until `deadline`: ETIMEDOUT.
  template <typename Condition>
  Result<void> wait_uninterruptible(Spinlock& guard_lock, Condition condition, Nanoseconds deadline)
      REQUIRES(guard_lock) NO_THREAD_SAFETY_ANALYSIS {
    while (!condition()) {
      TRY(sleep(guard_lock, false, deadline));
    }
    return {};
  }
  // Any context. The caller may hold locks of a rank above kWaitQueue.
  void wake_one();
  void wake_all();

 private:
  // Goes to sleep in one step with dropping the lock; takes the lock again before it returns. To be
  // called with interrupts off by exactly one Guard on guard_lock.
  Result<void> sleep(Spinlock& guard_lock, bool interruptible, Nanoseconds deadline);

  Spinlock lock_{LockRank::kWaitQueue};
  List<TaskHead, &TaskHead::wait_link> waiters_;
};

// A lock that sleeps. Not for interrupts.
class CAPABILITY("mutex") Mutex {
 public:
  constexpr explicit Mutex(LockRank rank) : rank_(rank), state_lock_(LockRank::kDevice) {}
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;
  void lock() ACQUIRE();
  // True if it was free, for whatever ranks are held. Task context, interrupts on or off; does not
  // sleep.
  bool try_lock() TRY_ACQUIRE(true);
  void unlock() RELEASE();
  bool held() const { return owner_ == current_task_head(); }
  // The task that has it; nullptr if it is free. It may be another the next moment, unless all CPUs
  // are stopped.
  const TaskHead* owner() const { return owner_; }
  LockRank rank() const { return rank_; }

 private:
  const LockRank rank_;
  Spinlock state_lock_;
  TaskHead* owner_ = nullptr;
  WaitQueue waiters_;
};

class SCOPED_CAPABILITY MutexGuard {
 public:
  explicit MutexGuard(Mutex& mutex) ACQUIRE(mutex) : mutex_(mutex) { mutex_.lock(); }
  ~MutexGuard() RELEASE() { mutex_.unlock(); }
  MutexGuard(const MutexGuard&) = delete;
  MutexGuard& operator=(const MutexGuard&) = delete;

 private:
  Mutex& mutex_;
};
