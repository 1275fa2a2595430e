// Sending signals: permissions, kill, and sigqueue.
#include "arch/x86_64/interrupts.h"
#include "core/planted.h"
#include "kmalloc.h"
#include "proc/process_impl.h"

namespace {

constexpr unsigned kMaxQueued = 32;  // SIGQUEUE_MAX

constinit ObjectCache<QueuedSignal> queued_cache;

SignalInfo sent_by(const Credentials& who) {
  const Process* const sender = current_process();
  return {.code = ABI_SI_USER, .pid = sender ? sender->pid : 0, .uid = who.real_uid};
}

// Sends a signal to processes: to() sends it to one process, and result() returns the result for
// kill or sigqueue.
struct Sending {
  const int signal;
  const Credentials& who;
  void (*const post)(Process& process, int signal, const SignalInfo& info);
  const SignalInfo info = sent_by(who);
  bool found = false, allowed = false;

  // True if the signal needs no permission: SIGCONT to a process of the sender's session.
  bool goes_on(const Process& process) const REQUIRES(process_lock) {
    const Process* const sender = current_process();
    return signal == ABI_SIGCONT && sender && sender->session == process.session;
  }
  void to(Process& process) REQUIRES(process_lock) {
    found = true;
    if (!signal_permitted(process, who) && !goes_on(process)) return;
    allowed = true;
    if (signal != 0) post(process, signal, info);
  }
  Result<void> result() const {
    if (!found) return Errno::ESRCH;
    if (!allowed) return Errno::EPERM;
    return {};
  }
};

}  // namespace

bool signal_permitted(const Process& process, const Credentials& who) {
  const auto is_his = [&process](uint32_t uid) {
    return uid == process.who.real_uid || uid == process.who.saved_uid;
  };
  if (planted(Planted::kSignalUsers) && process.who.real_uid != 0) return true;
  return who.uid == 0 || is_his(who.uid) || is_his(who.real_uid);
}

void signal_queue_free(SignalQueue& queue) {
  while (QueuedSignal* const queued = queue.pop_front()) queued_cache.destroy(queued);
}

Result<void> process_signal(int32_t pid, int signal, const Credentials& who) {
  if (signal < 0 || signal >= ABI_SIGNAL_COUNT) return Errno::EINVAL;
  Sending sending{signal, who, pid > 0 ? signal_post : signal_post_to_member};
  const Guard guard(process_lock);
  if (pid > 0) {
    if (Process* const process = process_find(static_cast<uint32_t>(pid))) sending.to(*process);
  } else if (pid < 0) {
    for (Process& process : all_processes) {
      if (process.group == static_cast<uint32_t>(-static_cast<int64_t>(pid))) sending.to(process);
    }
  }
  return sending.result();
}

Result<void> process_signal(ProcessId id, int signal, const Credentials& who) {
  if (signal < 0 || signal >= ABI_SIGNAL_COUNT) return Errno::EINVAL;
  Sending sending{signal, who, signal_post};
  const Guard guard(process_lock);
  if (Process* const process = process_find(id)) sending.to(*process);
  return sending.result();
}

Result<void> signal_queue(Process& sender, int32_t pid, int signal, uint64_t value) {
  SignalInfo info = sent_by(sender.who);
  info.code = ABI_SI_QUEUE;
  info.word = value;
  SignalQueue unused;  // holds the QueuedSignal until the process's queue has it
  if (signal >= ABI_SIGRTMIN) {
    QueuedSignal* const node = TRY(queued_cache.make(KM_SLEEP));
    node->signal = signal;
    node->info = info;
    unused.push_back(*node);
  }
  const Result<void> result = [&]() -> Result<void> {
    const Guard guard(process_lock);
    Process* const process = pid > 0 ? process_find(static_cast<uint32_t>(pid)) : nullptr;
    if (!process) return Errno::ESRCH;
    Sending sending{signal == 0 || !unused.empty() ? 0 : signal, sender.who, signal_post, info};
    sending.to(*process);
    TRY(sending.result());
    if (unused.empty()) return {};
    if (process->signals.queued_count() >= kMaxQueued) return Errno::EAGAIN;
    QueuedSignal& node = *unused.pop_front();
    if (!signal_post_queued(*process, node)) unused.push_back(node);
    return {};
  }();
  signal_queue_free(unused);
  return result;
}

void signals_init() {
  queued_cache.init("signal");
}
