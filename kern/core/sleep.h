// Sleeping, wait queues, polling and sleeping locks, for all layers above the spinlocks. The
// scheduler implements them (sched/wait.cc). Before the scheduler runs, nothing waits: each
// Mutex is free when code takes it.
#pragma once

#include <atomic>

#include "core/cpu.h"
#include "core/spinlock.h"
#include "core/task_head.h"
#include "lib/result.h"
#include "lib/units.h"

// Sleeps until `deadline`; EINTR if a signal interrupts the sleep.
Result<void> task_sleep_until(Nanoseconds deadline);

class Poller;
class PollWaiter;
class WaitQueue;

// Links a PollWaiter into one of its queues.
struct PollLink {
  PollWaiter* waiter = nullptr;
  WaitQueue* queue = nullptr;  // nullptr: the link is not in use
  ListNode node;
};

// A queue of tasks that wait for a condition.
class WaitQueue {
 public:
  constexpr WaitQueue() = default;
  // Sleeps until condition() is true. `guard_lock` protects the data of the condition. The caller
  // holds `guard_lock`. The lock is dropped during the sleep, and held again on every return. EINTR
  // when a signal is pending; ETIMEDOUT at `deadline`.
  //
  // A condition is a lambda with the annotation REQUIRES(the lock).
  template <typename Condition>
  Result<void> wait(Spinlock& guard_lock, Condition condition, Nanoseconds deadline = {UINT64_MAX})
      REQUIRES(guard_lock) {
    while (!is_met(condition)) {
      TRY(sleep(guard_lock, true, deadline));
    }
    return {};
  }
  template <typename Condition>
  void wait_uninterruptible(Spinlock& guard_lock, Condition condition) REQUIRES(guard_lock) {
    while (!is_met(condition)) static_cast<void>(sleep(guard_lock, false, {UINT64_MAX}));
  }
  // Like wait(), but signals do not end the sleep. ETIMEDOUT at `deadline`.
  template <typename Condition>
  Result<void> wait_uninterruptible(Spinlock& guard_lock, Condition condition, Nanoseconds deadline)
      REQUIRES(guard_lock) {
    while (!is_met(condition)) {
      TRY(sleep(guard_lock, false, deadline));
    }
    return {};
  }
  // wake_one() wakes one waiting task, wake_all() wakes all waiting tasks. Each of the two
  // functions also wakes all pollers. Any context. The caller may hold locks of a rank above
  // kWaitQueue.
  void wake_one();
  void wake_all();

 private:
  friend class PollWaiter;
  // No analysis: it cannot know that the lock in the condition's annotation is `guard_lock`.
  template <typename Condition>
  static bool is_met(Condition& condition) NO_THREAD_SAFETY_ANALYSIS {
    return condition();
  }
  void wake_pollers() REQUIRES(lock_);
  // Drops the lock and goes to sleep in one step, so that no wake-up is missed. Takes the lock
  // again before the return. The caller holds no other spinlock, and only the Guard on guard_lock
  // has turned interrupts off.
  Result<void> sleep(Spinlock& guard_lock, bool interruptible, Nanoseconds deadline)
      REQUIRES(guard_lock);

  Spinlock lock_{LockRank::kWaitQueue};
  List<TaskHead, &TaskHead::wait_link> waiters_;
  List<PollLink, &PollLink::node> pollers_;
};

// One of several conditions that a task polls. The PollWaiter is linked into the queues that are
// woken when the condition may have become true; the task itself does not sleep in these queues.
// Made and used by one task. The destructor unlinks the PollWaiter from its queues, which must
// still exist.
class PollWaiter {
 public:
  explicit PollWaiter(Poller& poller) : poller_(poller) {}
  ~PollWaiter();
  PollWaiter(const PollWaiter&) = delete;
  PollWaiter& operator=(const PollWaiter&) = delete;

  // Joins `queue`, one of at most kMaxQueues. To be called before the condition is tested, so that
  // a later change wakes the poller.
  static constexpr unsigned kMaxQueues = 2;
  void wait_on(WaitQueue& queue);
  // For a condition whose changes wake no queue: makes the poller test it again at short intervals.
  void look_again() { looks_again_ = true; }
  bool looks_again() const { return looks_again_; }
  // True if the condition must be tested: at the first call, after one of the queues has been woken
  // since the last call, and at every call after look_again().
  bool take_woken() { return woken_.exchange(false) || looks_again_; }

 private:
  friend class WaitQueue;
  Poller& poller_;
  std::atomic<bool> woken_{true};
  bool looks_again_ = false;
  PollLink links_[kMaxQueues];
};

// The task that waits for any of its PollWaiters.
class Poller {
 public:
  Poller() : task_(current_task_head()) {}
  Poller(const Poller&) = delete;
  Poller& operator=(const Poller&) = delete;
  // Sleeps until one of the queues is woken. Returns at once if a queue was woken since the last
  // call. May also return without a reason, so the caller calls it in a loop until a condition is
  // true. EINTR when a signal is pending; ETIMEDOUT at `deadline`. No lock held.
  Result<void> sleep(Nanoseconds deadline);

 private:
  friend class WaitQueue;
  TaskHead* const task_;
  std::atomic<bool> woken_{false};
};

// A sleeping lock. Not for interrupts.
class CAPABILITY("mutex") Mutex {
 public:
  constexpr explicit Mutex(LockRank rank) : rank_(rank), state_lock_(LockRank::kDevice) {}
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;
  void lock() ACQUIRE();
  // Takes the lock if it is free. Returns false if a task holds the lock, or if another CPU is in
  // lock() or unlock() at this moment. Locks of any rank may be held. Task context, interrupts on
  // or off; does not sleep.
  bool try_lock() TRY_ACQUIRE(true);
  void unlock() RELEASE();
  bool held() const { return owner_ == current_task_head(); }
  void known_held() const ASSERT_CAPABILITY(this) {}  // see Spinlock::known_held
  void not_needed() const ASSERT_CAPABILITY(this) {}
  // The task that holds the lock; nullptr if it is free. Stable only while all CPUs are stopped.
  const TaskHead* owner() const { return owner_; }
  LockRank rank() const { return rank_; }

 private:
  const LockRank rank_;
  Spinlock state_lock_;
  uint32_t waiting_ GUARDED_BY(state_lock_) = 0;  // number of tasks that wait in lock()
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
