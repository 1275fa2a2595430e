#include "proc/pending_signals_impl.h"

#include <utility>

#include "proc/timers_impl.h"

bool PendingSignals::is_queued(int signal) {
  for (const QueuedSignal& queued : queued_) {
    if (queued.signal == signal) return true;
  }
  return false;
}

void PendingSignals::update(int signal) {
  if (!(unqueued_ & signal_bit(signal)) && !is_queued(signal)) pending_ &= ~signal_bit(signal);
}

void PendingSignals::add(int signal, const SignalInfo& info) {
  if (!(unqueued_ & signal_bit(signal))) replace(signal, info);
}

void PendingSignals::replace(int signal, const SignalInfo& info) {
  info_[signal] = info;
  unqueued_ |= signal_bit(signal);
  pending_ |= signal_bit(signal);
}

void PendingSignals::add_queued(QueuedSignal& queued) {
  queued_.push_back(queued);
  if (!queued.timer) queued_count_++;
  pending_ |= signal_bit(queued.signal);
}

void PendingSignals::withdraw(QueuedSignal& queued) {
  if (!queued.link.linked()) return;
  queued.link.unlink();
  update(queued.signal);
}

void PendingSignals::discard(uint64_t mask, SignalQueue& dropped) {
  unqueued_ &= ~mask;
  pending_ &= ~mask;
  for (QueuedSignal& queued : queued_) {
    if (!(signal_bit(queued.signal) & mask)) continue;
    queued.link.unlink();
    if (queued.timer) {
      posix_timer_goes_on(*queued.timer);
      continue;
    }
    queued_count_--;
    dropped.push_back(queued);
  }
}

TakenSignal PendingSignals::take(int signal, SignalQueue& dropped) {
  SignalInfo info;
  TakenSignal taken{.signal = signal, .info = {}};
  if (unqueued_ & signal_bit(signal)) {
    unqueued_ &= ~signal_bit(signal);
    info = info_[signal];
  } else {
    for (QueuedSignal& queued : queued_) {
      if (queued.signal != signal) continue;
      queued.link.unlink();
      info = queued.info;
      if (PosixTimer* const timer = queued.timer) {
        posix_timer_goes_on(*timer);
        timer->last_overruns = std::exchange(timer->overruns, 0);
        taken.info.timer = timer->id;
        taken.info.overrun = posix_timer_overrun(*timer);
      } else {
        queued_count_--;
        dropped.push_back(queued);
      }
      break;
    }
  }
  update(signal);
  taken.info.signo = signal;
  taken.info.code = info.code;
  taken.info.status = info.status;
  taken.info.pid = static_cast<int32_t>(info.pid);
  taken.info.uid = info.uid;
  (info.code == ABI_SI_QUEUE || info.code == ABI_SI_TIMER ? taken.info.value : taken.info.address) =
      info.word;
  return taken;
}
