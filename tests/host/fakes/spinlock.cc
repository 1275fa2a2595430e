// Spinlocks for threads as CPUs, without interrupts. Turning interrupts off has no effect on other
// threads, so ThreadSanitizer sees the locks alone. Also sleeping.
#include <sched.h>

#include "core/sleep.h"
#include "core/spinlock.h"

__thread struct host_cpu host_cpu = {};
void host_section_begin() {}
void host_section_end() {}
void host_interrupt_deliver() {}

void Spinlock::lock() {
  while (!try_lock()) sched_yield();
}
bool Spinlock::try_lock() {
  return owner_.exchange(kLocked, std::memory_order_acquire) == 0;
}
void Spinlock::unlock() {
  owner_.store(0, std::memory_order_release);
}

// Wakes up all the time; a test can claim that a signal waits.
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
