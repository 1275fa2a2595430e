// System call poll: waits for any of several open files.
//
// From the first check until the call ends, each descriptor has a PollWaiter in the queues of its
// device (sched/wait.cc). After a sleep, a file is checked again only if its device has woken the
// waiter or cannot wake pollers. So a call with many descriptors costs little when one becomes
// ready. The call holds references to the channels until it ends, as a waiting read does.
// Everything is allocated before the first check.
//
// A waker goes through all waiters of a queue with interrupts off, so a user may have only so many
// waiters. A call that would exceed this limit joins no queue, and checks at short intervals.
#include <algorithm>
#include <memory>

#include "arch/x86_64/time.h"
#include "proc/system_call_impl.h"

namespace {

// Pause between two checks of files that wake no poller.
constexpr Nanoseconds kPollStep{8'000'000};

struct PolledFile {
  explicit PolledFile(Poller& poller) : waiter(poller) {}
  Ref<Chan> chan;  // released after the waiter
  PollWaiter waiter;
};

// The files of one call.
class PollSet {
 public:
  PollSet() = default;
  ~PollSet() {
    if (files_) std::destroy_n(files_, count_);
    kfree(memory_);
  }
  PollSet(const PollSet&) = delete;
  PollSet& operator=(const PollSet&) = delete;

  // Copies the `count` entries at `address`. EFAULT, EINVAL, ENOMEM.
  Result<void> make(FdTable& fds, uint64_t address, uint64_t count);
  // Waits until a file is ready or the deadline has passed. Returns the number of ready files.
  // EINTR.
  Result<int> wait(Nanoseconds deadline);
  // Copies the entries with the results to the program. EFAULT.
  Result<void> put(uint64_t address) {
    return copy_to_user(address, entries_, count_ * sizeof(abi_pollfd));
  }

 private:
  static constexpr size_t kSmall = 2;  // up to this many entries need no allocation
  static constexpr size_t kSize = sizeof(PolledFile) + sizeof(abi_pollfd);

  void look(abi_pollfd& entry, PolledFile& file, bool first);

  alignas(PolledFile) char small_[kSmall * kSize];
  Poller poller_;
  Charge charge_;  // of more than a page, which belongs to the thread (user_account.cc)
  Charge waiters_;
  bool joins_queues_ = true;
  void* memory_ = nullptr;
  PolledFile* files_ = nullptr;
  abi_pollfd* entries_ = nullptr;
  size_t count_ = 0;
};

Result<void> PollSet::make(FdTable& fds, uint64_t address, uint64_t count) {
  if (count > kMaxFds) return Errno::EINVAL;
  if (count > 1) {
    Result<Charge> charge = charge_current(Charged::kPollWaiter, count);
    joins_queues_ = static_cast<bool>(charge);
    if (charge) waiters_ = charge.take();
  }
  char* memory = small_;
  if (count > kSmall) {
    const size_t bytes = count * kSize;
    if (bytes > kPageSize) charge_ = TRY(charge_current(Charged::kBufferByte, bytes));
    memory_ = kmalloc(bytes, KM_SLEEP);
    if (!memory_) return Errno::ENOMEM;
    memory = static_cast<char*>(memory_);
  }
  entries_ = reinterpret_cast<abi_pollfd*>(memory + count * sizeof(PolledFile));
  TRY(copy_from_user(entries_, address, count * sizeof(abi_pollfd)));
  files_ = reinterpret_cast<PolledFile*>(memory);
  for (; count_ < count; count_++) {
    PolledFile& file = *std::construct_at(files_ + count_, poller_);
    abi_pollfd& entry = entries_[count_];
    entry.revents = 0;
    if (entry.fd < 0) continue;
    Result<Ref<Chan>> chan = fd_get(fds, entry.fd);
    if (chan) {
      file.chan = chan.take();
    } else {
      entry.revents = ABI_POLLNVAL;
    }
  }
  return {};
}

void PollSet::look(abi_pollfd& entry, PolledFile& file, bool first) {
  if (!file.chan || !file.waiter.take_woken()) return;
  unsigned ready =
      file.chan->device->poll(*file.chan, first && joins_queues_ ? &file.waiter : nullptr);
  if (!joins_queues_) file.waiter.look_again();
  if (ready & ABI_POLLIN) ready |= ABI_POLLRDNORM;
  if (ready & ABI_POLLOUT) ready |= ABI_POLLWRNORM;
  entry.revents = static_cast<int16_t>(
      ready & (static_cast<unsigned>(entry.events) | ABI_POLLERR | ABI_POLLHUP));
}

Result<int> PollSet::wait(Nanoseconds deadline) {
  for (bool first = true;; first = false) {
    int ready = 0;
    bool looks_again = false;
    for (size_t i = 0; i < count_; i++) {
      look(entries_[i], files_[i], first);
      if (entries_[i].revents) ready++;
      looks_again |= files_[i].waiter.looks_again();
    }
    if (ready > 0) return ready;
    const Nanoseconds now = monotonic_now();
    if (now >= deadline) return 0;
    const Result<void> slept =
        poller_.sleep(looks_again ? std::min(now + kPollStep, deadline) : deadline);
    if (!slept && slept.error() == Errno::EINTR) return Errno::EINTR;
  }
}

}  // namespace

Result<int64_t> sys_poll(const SystemCall& call) {
  call.thread.restart = Restart::kUnlessHandled;
  Thread& thread = call.thread;
  TemporaryMask mask(thread);
  PollSet set;
  TRY(set.make(*call.process.fds, call.arguments[0], call.arguments[1]));
  if (!thread.restarted) {
    thread.sleep_deadline = kForever;
    if (call.arguments[2])
      thread.sleep_deadline = deadline_after(TRY(get_duration(call.arguments[2])));
  }
  if (call.arguments[3]) TRY(mask.set(call.arguments[3]));
  Result<int> ready = set.wait(thread.sleep_deadline);
  if (!ready) {
    mask.keep();
    return ready.error();
  }
  TRY(set.put(call.arguments[0]));
  return *ready;
}
