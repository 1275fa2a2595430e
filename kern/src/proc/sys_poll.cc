// System call poll: waiting for any of several open files.
#include <algorithm>

#include "arch/x86_64/time.h"
#include "proc/system_call.h"

namespace {

constexpr Nanoseconds kPollStep{8'000'000};

// One pass over the descriptors of a poll; how many have something.
int poll_once(FdTable& fds, abi_pollfd* entries, size_t count) {
  int ready = 0;
  for (size_t i = 0; i < count; i++) {
    abi_pollfd& entry = entries[i];
    entry.revents = 0;
    if (entry.fd < 0) continue;
    Result<Ref<Chan>> chan = fd_get(fds, entry.fd);
    if (!chan) {
      entry.revents = ABI_POLLNVAL;
    } else {
      entry.revents = static_cast<int16_t>((*chan)->device->poll(**chan) &
                                           (entry.events | ABI_POLLERR | ABI_POLLHUP));
    }
    if (entry.revents) ready++;
  }
  return ready;
}

}  // namespace

// Devices do not tell when they become ready, so poll looks again in short steps.
Result<int64_t> sys_poll(const SystemCall& call) {
  const uint64_t count = call.arguments[1];
  const int timeout = call.integer(2);
  abi_pollfd entries[kMaxFds];
  if (count > kMaxFds) return Errno::EINVAL;
  const size_t size = count * sizeof(abi_pollfd);
  TRY(copy_from_user(entries, call.arguments[0], size));
  Process& process = call.process;
  if (!process.restarted) {
    process.sleep_deadline =
        timeout < 0 ? Nanoseconds{UINT64_MAX}
                    : monotonic_now() + Nanoseconds{static_cast<uint64_t>(timeout) * 1'000'000};
  }
  for (;;) {
    const int ready = poll_once(*process.fds, entries, count);
    const Nanoseconds now = monotonic_now();
    if (ready > 0 || now >= process.sleep_deadline) {
      TRY(copy_to_user(call.arguments[0], entries, size));
      return ready;
    }
    TRY(task_sleep_until(std::min(now + kPollStep, process.sleep_deadline)));
  }
}
