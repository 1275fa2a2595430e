// Spinlocks and wait queues for tests in which threads represent CPUs that take no interrupts.
// Turning interrupts off does nothing here, so for ThreadSanitizer only locks and atomic operations
// order accesses.
#include "fakes/spinlock.h"

#include <sched.h>

#include <utility>

#include "core/sleep.h"
#include "core/spinlock.h"

__thread struct host_cpu host_cpu = {};
void host_section_begin() {}
void host_section_end() {}
void host_interrupt_deliver() {}

static thread_local void (*next_unlock)() = nullptr;
void at_next_unlock(void (*function)()) {
  next_unlock = function;
}

void Spinlock::lock() {
  while (!try_lock()) sched_yield();
}
bool Spinlock::try_lock() {
  return owner_.exchange(kLocked, std::memory_order_acquire) == 0;
}
void Spinlock::unlock() {
  owner_.store(0, std::memory_order_release);
  if (next_unlock) std::exchange(next_unlock, nullptr)();
}

// WaitQueue::sleep() returns at once. A test sets host_signal_waits to simulate a pending signal.
std::atomic<bool> host_signal_waits{false};
Result<void> WaitQueue::sleep(Spinlock& guard_lock, bool interruptible, Nanoseconds) {
  guard_lock.unlock();
  sched_yield();
  guard_lock.lock();
  if (interruptible && host_signal_waits) return Errno::EINTR;
  return {};
}
void WaitQueue::wake_one() {}
void WaitQueue::wake_all() {}
