// Sleeping: wait queues and mutexes.
//
// No wake-up is lost. A waker changes the condition's data under the guard lock, a spinlock that
// the caller of WaitQueue::wait() passes. The sleeper holds the guard lock from its check of the
// condition until it is on the queue. The sleeper sets its state to kSleeping with its CPU's run
// queue locked. From then on the sleeper counts as asleep, and a waker waits until the sleeper has
// left the CPU (run_queue.cc).
//
// Three sources can wake a sleeper: the queue, the sleeper's deadline, and task_interrupt. The
// first source to change the sleeper's state from kSleeping wins. The deadline and task_interrupt
// leave the sleeper on the queue; the sleeper then takes itself off. A woken sleeper always checks
// its condition first, before the deadline and signals. So a wake_one for a sleeper whose deadline
// has just passed is not lost.
//
// A Poller waits for several conditions at once. It has a PollWaiter for each condition. The
// PollWaiter has a PollLink in each queue that is woken when this condition may have become true.
// The links stay in the queues while the poller checks, sleeps and checks again. A waker first
// marks the PollWaiter and the poller as woken, then wakes the task. The poller first sets its
// state to kSleeping, then tests its mark. So either the poller sees the mark or the waker sees the
// state, and a wake-up between check and sleep is not lost. A waker holds the queue's lock, so the
// poller cannot be destroyed meanwhile. A woken poller checks only the conditions whose PollWaiter
// is marked.
//
// Lock order: guard lock, queue, run queue.
#include "arch/x86_64/time.h"
#include "core/log.h"
#include "sched/sched_impl.h"
#include "sched/timer.h"

namespace {

constexpr Nanoseconds kNever{UINT64_MAX};

void deadline_reached(void* task) {
  run_queue_wake(*static_cast<Task*>(task));
}

#ifdef CONFIG_LOCK_RANK_CHECK
constexpr uint64_t rank_bit(LockRank rank) {
  return uint64_t{1} << static_cast<unsigned>(rank);
}
#endif

}  // namespace

Result<void> WaitQueue::sleep(Spinlock& guard_lock, bool interruptible, Nanoseconds deadline) {
  Cpu& cpu = this_cpu();
  Task& task = *task_on(cpu);
  ASSERT(cpu.held_locks == 1 && cpu.preempt_off == 0 && cpu.interrupt_depth == 0);
  if (interruptible && task.interrupted) return Errno::EINTR;
  if (deadline != kNever && monotonic_now() >= deadline) return Errno::ETIMEDOUT;

  Timer timer{};
  timer.callback = deadline_reached;
  timer.argument = &task;
  lock_.lock();
  waiters_.push_back(task);
  if (deadline != kNever) timer_arm(timer, deadline);
  this_run_queue.lock();
  task.interruptible = interruptible;
  task.state = TaskState::kSleeping;
  // task_interrupt first sets `interrupted`, then tests the state. This function first sets the
  // state, then tests `interrupted`. So at least one of the two functions sees the other's change.
  TaskState expected = TaskState::kSleeping;
  const bool stay = interruptible && task.interrupted &&
                    task.state.compare_exchange_strong(expected, TaskState::kRunning);
  lock_.unlock();
  guard_lock.unlock();
  if (stay) {
    this_run_queue.unlock();
  } else {
    run_queue_switch(Leave::kAsleep);
  }

  if (deadline != kNever) timer_cancel(timer);
  lock_.lock();
  if (task.wait_link.linked()) task.wait_link.unlink();
  lock_.unlock();
  guard_lock.lock();
  return {};
}

void WaitQueue::wake_pollers() {
  for (PollLink& link : pollers_) {
    Poller& poller = link.waiter->poller_;
    link.waiter->woken_ = true;
    // If the poller was marked already, the waker that marked it wakes the task.
    if (!poller.woken_.exchange(true)) run_queue_wake(static_cast<Task&>(*poller.task_));
  }
}

void WaitQueue::wake_one() {
  const Guard guard(lock_);
  if (!pollers_.empty()) wake_pollers();
  if (TaskHead* task = waiters_.pop_front()) run_queue_wake(static_cast<Task&>(*task));
}

void WaitQueue::wake_all() {
  const Guard guard(lock_);
  if (!pollers_.empty()) wake_pollers();
  while (TaskHead* task = waiters_.pop_front()) run_queue_wake(static_cast<Task&>(*task));
}

void PollWaiter::wait_on(WaitQueue& queue) {
  for (PollLink& link : links_) {
    if (link.queue) continue;
    link.queue = &queue;
    link.waiter = this;
    const Guard guard(queue.lock_);
    queue.pollers_.push_back(link);
    return;
  }
  panic("a file is polled in more than %u queues", kMaxQueues);
}

PollWaiter::~PollWaiter() {
  for (PollLink& link : links_) {
    if (!link.queue) continue;
    const Guard guard(link.queue->lock_);
    link.node.unlink();
  }
}

Result<void> Poller::sleep(Nanoseconds deadline) {
  Task& task = static_cast<Task&>(*task_);
  if (woken_.exchange(false)) return {};
  if (task.interrupted) return Errno::EINTR;
  if (deadline != kNever && monotonic_now() >= deadline) return Errno::ETIMEDOUT;

  Timer timer{};
  timer.callback = deadline_reached;
  timer.argument = &task;
  {
    const InterruptsOff off;
    if (deadline != kNever) timer_arm(timer, deadline);
    this_run_queue.lock();
    task.interruptible = true;
    task.state = TaskState::kSleeping;
    TaskState expected = TaskState::kSleeping;
    const bool stay = (woken_ || task.interrupted) &&
                      task.state.compare_exchange_strong(expected, TaskState::kRunning);
    if (stay) {
      this_run_queue.unlock();
    } else {
      run_queue_switch(Leave::kAsleep);
    }
  }
  if (deadline != kNever) timer_cancel(timer);
  return {};
}

void task_interrupt(Task* task) {
  task->interrupted = true;
  if (task->interruptible) run_queue_wake(*task);
}

Result<void> task_sleep_until(Nanoseconds deadline) {
  Spinlock lock{LockRank::kDevice};
  WaitQueue queue;
  const Guard guard(lock);
  const Result<void> result = queue.wait(
      lock, [] { return false; }, deadline);
  if (result.error() == Errno::EINTR) return Errno::EINTR;
  return {};
}

void Mutex::lock() {
  Task* const task = current_task();
  const Guard guard(state_lock_);
  ASSERT(this_cpu().held_locks == 1 && (owner_ != task || !task));
#ifdef CONFIG_LOCK_RANK_CHECK
  if (task && (task->held_mutexes & (rank_bit(rank_) | (rank_bit(rank_) - 1)))) {
    panic("mutex of rank %u taken while ranks 0x%lx (bits) are held", static_cast<unsigned>(rank_),
          task->held_mutexes);
  }
#endif
  if (owner_) {
    task->waits_for = this;
    waiting_++;
    waiters_.wait_uninterruptible(state_lock_, [this] { return owner_ == nullptr; });
    waiting_--;
    task->waits_for = nullptr;
  }
  owner_ = task;
#ifdef CONFIG_LOCK_RANK_CHECK
  if (task) task->held_mutexes |= rank_bit(rank_);
#endif
}

bool Mutex::try_lock() {
  const TryGuard guard(state_lock_);
  Task* const task = current_task();
  if (!guard || owner_ || !task) return false;
  owner_ = task;
#ifdef CONFIG_LOCK_RANK_CHECK
  task->held_mutexes |= rank_bit(rank_);
#endif
  return true;
}

void Mutex::unlock() {
  const Guard guard(state_lock_);
  ASSERT(held());
#ifdef CONFIG_LOCK_RANK_CHECK
  if (owner_) static_cast<Task*>(owner_)->held_mutexes &= ~rank_bit(rank_);
#endif
  owner_ = nullptr;
  if (waiting_ > 0) waiters_.wake_one();
}
