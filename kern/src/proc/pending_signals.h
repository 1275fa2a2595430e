// Signals that have been sent and not yet taken: of a process, which any of its threads may take,
// or of one thread.
#pragma once

#include <array>
#include <cstdint>

#include "abi/syscall.h"
#include "core/spinlock.h"
#include "lib/list.h"

struct PosixTimer;
extern Spinlock process_lock;  // process_impl.h

// Why it came: what its handler learns in abi_siginfo.
struct SignalInfo {
  int32_t code = ABI_SI_KERNEL;
  uint32_t pid = 0, uid = 0;
  int32_t status = 0;
  uint64_t word = 0;  // a value (ABI_SI_QUEUE, ABI_SI_TIMER), or the address of a fault
};

// A pending signal with a value of its own, of which there may be several with one number.
struct QueuedSignal {
  int signal = 0;
  SignalInfo info;
  PosixTimer* timer = nullptr;  // whose it is; nullptr: sigqueue's, freed when it is taken
  ListNode link;
};
using SignalQueue = List<QueuedSignal, &QueuedSignal::link>;

// Frees those that sigqueue made. May sleep.
void signal_queue_free(SignalQueue& queue);

constexpr uint64_t signal_bit(int signal) {
  return uint64_t{1} << signal;
}

// A signal taken off.
struct TakenSignal {
  int signal = 0;  // 0: none was
  abi_siginfo info;
};

// Under process_lock. Bit s of a mask is signal s.
class PendingSignals {
 public:
  uint64_t mask() const { return pending_; }
  bool has(int signal) const { return pending_ & signal_bit(signal); }

  // One that is pending already keeps its info.
  void add(int signal, const SignalInfo& info) REQUIRES(process_lock);
  // The info replaces that of one that is pending.
  void replace(int signal, const SignalInfo& info) REQUIRES(process_lock);
  // `queued`, which is in no queue, is in this one afterwards.
  void add_queued(QueuedSignal& queued) REQUIRES(process_lock);
  // Takes it off the queue if it is in it.
  void withdraw(QueuedSignal& queued) REQUIRES(process_lock);
  // Copies those of `mask` that have no value of their own.
  void copy(const PendingSignals& from, uint64_t mask) REQUIRES(process_lock);
  // Forgets those in `mask`; what is to be freed comes into `dropped`.
  void discard(uint64_t mask, SignalQueue& dropped) REQUIRES(process_lock);
  // Takes off `signal`, which is pending; what is to be freed comes into `dropped`.
  TakenSignal take(int signal, SignalQueue& dropped) REQUIRES(process_lock);

  // How many signals of sigqueue wait.
  unsigned queued_count() const { return queued_count_; }

 private:
  bool is_queued(int signal);
  // After one of them has been taken off.
  void update(int signal);

  uint64_t pending_ = 0;
  uint64_t unqueued_ = 0;  // of pending_: those that info_ is about
  std::array<SignalInfo, ABI_SIGNAL_COUNT> info_{};
  SignalQueue queued_;  // the others of pending_, in the order in which they came
  unsigned queued_count_ = 0;
};
