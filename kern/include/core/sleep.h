// Sleeping: how any layer above the spinlocks waits. The scheduler makes it happen
// (src/sched/wait.cc); before there is one, a Mutex is only taken where nobody holds it.
#pragma once

#include <atomic>

#include "core/cpu.h"
#include "core/spinlock.h"
#include "core/task_head.h"
#include "lib/result.h"
#include "lib/units.h"

// Sleeps; EINTR if interrupted.
Result<void> task_sleep_until(Nanoseconds deadline);

class Poller;
class PollWaiter;
class WaitQueue;

// A waiter's place in one of its queues.
struct PollLink {
  PollWaiter* waiter = nullptr;
  WaitQueue* queue = nullptr;  // nullptr: not used
  ListNode node;
};

// Where tasks wait for something to become true.
class WaitQueue {
 public:
  constexpr WaitQueue() = default;
  // Sleeps until condition() is true. `guard_lock` protects what the condition reads: it is held by
  // the caller when called and on return, and dropped while asleep. Interruptible: EINTR when a
  // signal waits (the lock is held then too). Deadline: ETIMEDOUT.
  //
  // A condition is annotated REQUIRES(the lock). In here the lock has another name, which is why
  // these functions are not analysed.
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
  // Both wake all who poll. Any context. The caller may hold locks of a rank above kWaitQueue.
  void wake_one();
  void wake_all();

 private:
  friend class PollWaiter;
  void wake_pollers() REQUIRES(lock_);
  // Goes to sleep in one step with dropping the lock; takes the lock again before it returns. To be
  // called with interrupts off by exactly one Guard on guard_lock.
  Result<void> sleep(Spinlock& guard_lock, bool interruptible, Nanoseconds deadline)
      REQUIRES(guard_lock);

  Spinlock lock_{LockRank::kWaitQueue};
  List<TaskHead, &TaskHead::wait_link> waiters_;
  List<PollLink, &PollLink::node> pollers_;
};

// One of the things that a task waits for at the same time: it stands in the queues that are woken
// when that may have happened, without a task's being asleep there. Made and used by one task; it
// leaves its queues, which must still be there, when it is destroyed.
class PollWaiter {
 public:
  explicit PollWaiter(Poller& poller) : poller_(poller) {}
  ~PollWaiter();
  PollWaiter(const PollWaiter&) = delete;
  PollWaiter& operator=(const PollWaiter&) = delete;

  // Stands in `queue` from now on; with kMaxQueues others at most. Before the condition is looked
  // at: what makes it true later then wakes the poller.
  static constexpr unsigned kMaxQueues = 2;
  void wait_on(WaitQueue& queue);
  // Nobody tells when it happens: the poller looks again in short steps.
  void look_again() { looks_again_ = true; }
  bool looks_again() const { return looks_again_; }
  // Whether one of the queues has been woken since the last call; true the first time.
  bool take_woken() { return woken_.exchange(false) || looks_again_; }

 private:
  friend class WaitQueue;
  Poller& poller_;
  std::atomic<bool> woken_{true};
  bool looks_again_ = false;
  PollLink links_[kMaxQueues];
};

// The task that waits, for any of its PollWaiters.
class Poller {
 public:
  Poller() : task_(current_task_head()) {}
  Poller(const Poller&) = delete;
  Poller& operator=(const Poller&) = delete;
  // Sleeps until one of the queues is woken, if none has been since the last call. May return
  // early; then, or if nothing is true after all, it is called again. EINTR when a signal waits,
  // ETIMEDOUT. No lock held.
  Result<void> sleep(Nanoseconds deadline);

 private:
  friend class WaitQueue;
  TaskHead* const task_;
  std::atomic<bool> woken_{false};
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
  void known_held() const ASSERT_CAPABILITY(this) {}  // as Spinlock's
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
