// System calls on limits and priorities.
//
// A process inherits the limits of its parent. The kernel enforces the limits of:
// - processor time (checked in the tick)
// - the size of a file
// - writable memory, and all memory (in each case without the stack)
// - the number of a user's processes
// - the number of descriptors
//
// All other limits are fixed. The stack has a fixed size. The kernel writes no core files, so the
// limit of their size is 0. Resident and locked memory are not counted, so their limits are
// infinite.
//
// A process with a positive nice value gets shorter slices of processor time (run_queue.cc). A
// process with a negative nice value gets longer slices.
#include <algorithm>

#include "core/errstr.h"
#include "proc/system_call_impl.h"

namespace {

constexpr abi_rlimit kNone{ABI_RLIM_INFINITY, ABI_RLIM_INFINITY};
constexpr int kNicest = 19, kRudest = -20;

bool is_kept(int resource) {
  switch (resource) {
    case ABI_RLIMIT_CPU:
    case ABI_RLIMIT_FSIZE:
    case ABI_RLIMIT_DATA:
    case ABI_RLIMIT_NPROC:
    case ABI_RLIMIT_NOFILE:
    case ABI_RLIMIT_AS:
      return true;
    default:
      return false;
  }
}

Result<void> check_change(const Process& process, int resource, const abi_rlimit& limit) {
  if (limit.current > limit.maximum) return Errno::EINVAL;
  const abi_rlimit& old = process.limits.of[resource];
  if (!is_kept(resource)) {
    if (limit.current == old.current && limit.maximum == old.maximum) return {};
    return fail(Errno::EPERM, "this limit is fixed: %lu", old.maximum);
  }
  if (limit.maximum > old.maximum && process.credentials().uid != 0) return Errno::EPERM;
  if (resource == ABI_RLIMIT_NOFILE && limit.maximum > kMaxFds)
    return fail(Errno::EPERM, "a process has at most %d descriptors", kMaxFds);
  return {};
}

// Ticks to add to the usual slice of 3 ticks: -2 to 3.
int32_t extra_slice_of(int nice) {
  return nice > 0 ? -((nice + 9) / 10) : (6 - nice) / 7;
}

// Sends SIGXFSZ to the current thread, which exceeds the limit of file sizes. Returns EFBIG.
Errno file_too_large() {
  const Guard guard(process_lock);
  signal_post_thread(self_thread(), ABI_SIGXFSZ);
  return Errno::EFBIG;
}

// Calls visit(process) for each process that getpriority or setpriority selects. EINVAL, ESRCH, and
// the errors of visit().
template <typename Visit>
Result<void> visit_priorities(const SystemCall& call, Visit visit) REQUIRES(process_lock) {
  const int which = call.integer(0);
  uint32_t id = call.word(1);
  if (which < ABI_PRIO_PROCESS || which > ABI_PRIO_USER) return Errno::EINVAL;
  if (id == 0) {
    id = which == ABI_PRIO_PROCESS ? call.process.pid
         : which == ABI_PRIO_PGRP  ? call.process.group
                                   : call.process.who.real_uid;
  }
  bool found = false;
  for (Process& process : all_processes) {
    const uint32_t its = which == ABI_PRIO_PROCESS ? process.pid
                         : which == ABI_PRIO_PGRP  ? process.group
                                                   : process.who.real_uid;
    if (its != id || process.state == ProcessState::kZombie) continue;
    found = true;
    TRY(visit(process));
  }
  if (!found) return Errno::ESRCH;
  return {};
}

}  // namespace

// The limits of process 1.
constexpr Limits kLimits = [] {
  Limits limits{};
  for (abi_rlimit& limit : limits.of) limit = kNone;
  limits.of[ABI_RLIMIT_STACK] = {kStackSize, kStackSize};
  limits.of[ABI_RLIMIT_CORE] = {0, 0};
  limits.of[ABI_RLIMIT_NOFILE] = {kMaxFds, kMaxFds};
  return limits;
}();
const Limits kFirstLimits = kLimits;

Result<void> limit_allows_memory(Process& process, uint64_t more, bool writable) {
  const uint64_t all = process.limits.soft(ABI_RLIMIT_AS),
                 data = process.limits.soft(ABI_RLIMIT_DATA);
  if (all == ABI_RLIM_INFINITY && data == ABI_RLIM_INFINITY) return {};
  const AddressSpace::Sizes sizes = process.space->sizes();
  if (sizes.all > all || more > all - sizes.all)
    return fail(Errno::ENOMEM, "the limit of memory is %lu bytes", all);
  if (writable && (sizes.data > data || more > data - sizes.data))
    return fail(Errno::ENOMEM, "the limit of data is %lu bytes", data);
  return {};
}

Result<size_t> limit_allows_write(Process& process, Chan& chan, uint64_t offset, size_t size) {
  const uint64_t limit = process.limits.soft(ABI_RLIMIT_FSIZE);
  if (limit == ABI_RLIM_INFINITY || size == 0 || !chan.device->seekable()) return size;
  abi_stat stat;
  TRY(chan.device->stat(chan, stat));
  if ((stat.mode & ABI_S_IFMT) != ABI_S_IFREG || chan.device->longest_command(chan) > 0)
    return size;
  if (chan.open_flags & ABI_O_APPEND) offset = stat.size;
  if (offset < limit) return std::min<uint64_t>(size, limit - offset);
  return file_too_large();
}

Result<void> limit_allows_size(Process& process, Chan& chan, uint64_t size) {
  if (size <= process.limits.soft(ABI_RLIMIT_FSIZE)) return {};
  abi_stat stat;
  TRY(chan.device->stat(chan, stat));
  if ((stat.mode & ABI_S_IFMT) != ABI_S_IFREG || size <= stat.size) return {};
  return file_too_large();
}

Result<int64_t> sys_rlimit(const SystemCall& call) {
  Process& process = call.process;
  const int resource = call.integer(0);
  if (resource < 0 || resource >= ABI_RLIMIT_COUNT) return Errno::EINVAL;
  const abi_rlimit old = process.limits.of[resource];
  if (call.arguments[1]) {
    abi_rlimit limit;
    TRY(get_user(call.arguments[1], limit));
    TRY(check_change(process, resource, limit));
    process.limits.of[resource] = limit;
    if (resource == ABI_RLIMIT_NOFILE) fd_set_limit(*process.fds, static_cast<int>(limit.current));
    if (resource == ABI_RLIMIT_CPU) timers_cpu_limited(process);
  }
  if (call.arguments[2]) TRY(put_user(call.arguments[2], old));
  return 0;
}

Result<int64_t> sys_getpriority(const SystemCall& call) {
  int lowest = kNicest;
  const Guard guard(process_lock);
  TRY(visit_priorities(call, [&](const Process& process) -> Result<void> {
    lowest = std::min(lowest, process.nice);
    return {};
  }));
  return 20 - lowest;
}

Result<int64_t> sys_setpriority(const SystemCall& call) {
  const int nice = std::clamp(call.integer(2), kRudest, kNicest);
  const Credentials who = call.process.credentials();
  const Guard guard(process_lock);
  TRY(visit_priorities(call, [&](Process& process) -> Result<void> {
    if (who.uid != 0 && who.uid != process.who.uid && who.uid != process.who.real_uid)
      return Errno::EPERM;
    if (who.uid != 0 && nice < process.nice) return Errno::EACCES;
    process.nice = nice;
    for (const Thread& thread : process.threads) thread.task->extra_slice = extra_slice_of(nice);
    return {};
  }));
  return 0;
}
