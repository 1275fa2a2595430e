// Pending signals: signals that have been sent but not yet taken. A signal is pending either for a
// process, and any of its threads may take it, or for one thread.
#pragma once

#include <array>
#include <cstdint>

#include "abi/syscall.h"
#include "core/spinlock.h"
#include "lib/list.h"

struct PosixTimer;
extern Spinlock process_lock;  // process_impl.h

// The cause of a signal. The signal's handler gets these values in abi_siginfo.
struct SignalInfo {
  int32_t code = ABI_SI_KERNEL;
  uint32_t pid = 0, uid = 0;
  int32_t status = 0;
  uint64_t word = 0;  // a value (ABI_SI_QUEUE, ABI_SI_TIMER), or the address of a fault
};

// A pending signal with a value of its own. Several signals of one number may be pending.
struct QueuedSignal {
  int signal = 0;
  SignalInfo info;
  // The timer that contains this QueuedSignal. nullptr: a signal of sigqueue; its QueuedSignal is
  // freed when the signal is taken.
  PosixTimer* timer = nullptr;
  ListNode link;
};
using SignalQueue = List<QueuedSignal, &QueuedSignal::link>;

// Frees the signals of sigqueue. May sleep.
void signal_queue_free(SignalQueue& queue);

constexpr uint64_t signal_bit(int signal) {
  return uint64_t{1} << signal;
}

// A signal that was taken.
struct TakenSignal {
  int signal = 0;  // 0: none
  abi_siginfo info;
};

// Under process_lock. Bit s of a mask is signal s.
class PendingSignals {
 public:
  uint64_t mask() const { return pending_; }
  bool has(int signal) const { return pending_ & signal_bit(signal); }
  // True if add() of this signal would change nothing.
  bool has_unqueued(int signal) const { return unqueued_ & signal_bit(signal); }

  // Adds the signal. If it is pending already, it keeps its info.
  void add(int signal, const SignalInfo& info) REQUIRES(process_lock);
  // Adds the signal. If it is pending already, `info` replaces its info.
  void replace(int signal, const SignalInfo& info) REQUIRES(process_lock);
  // Adds `queued`, which must not be in a queue yet.
  void add_queued(QueuedSignal& queued) REQUIRES(process_lock);
  // Removes `queued` if it is in this queue.
  void withdraw(QueuedSignal& queued) REQUIRES(process_lock);
  // Forgets the signals in `mask`. QueuedSignals that the caller must free are moved to `dropped`.
  void discard(uint64_t mask, SignalQueue& dropped) REQUIRES(process_lock);
  // Takes `signal`, which is pending. A QueuedSignal that the caller must free is moved to
  // `dropped`.
  TakenSignal take(int signal, SignalQueue& dropped) REQUIRES(process_lock);

  // The number of signals of sigqueue that are pending.
  unsigned queued_count() const { return queued_count_; }

 private:
  bool is_queued(int signal);
  // Clears the signal's bit in pending_ if no signal of this number is left.
  void update(int signal);

  uint64_t pending_ = 0;
  uint64_t unqueued_ = 0;  // pending signals that have no QueuedSignal in queued_
  std::array<SignalInfo, ABI_SIGNAL_COUNT> info_{};  // for each signal in unqueued_: its info
  SignalQueue queued_;                               // in order of arrival
  unsigned queued_count_ = 0;
};
