// System calls for locks on files: the commands of fcntl, and flock.
#include "core/errstr.h"
#include "ns/file_lock.h"
#include "proc/system_call_impl.h"

namespace {

constexpr int16_t kSeekSet = 0, kSeekCurrent = 1, kSeekEnd = 2;

// Translates l_type. EINVAL.
Result<LockKind> kind_of(int16_t type) {
  switch (type) {
    case ABI_F_RDLCK:
      return LockKind::kShared;
    case ABI_F_WRLCK:
      return LockKind::kExclusive;
    case ABI_F_UNLCK:
      return LockKind::kNone;
    default:
      return Errno::EINVAL;
  }
}

Result<ByteRange> range_of(Chan& chan, const abi_flock& lock) {
  uint64_t base = 0;
  if (lock.whence == kSeekCurrent) {
    base = chan.offset;
  } else if (lock.whence == kSeekEnd) {
    abi_stat stat;
    TRY(chan.device->stat(chan, stat));
    base = stat.size;
  } else if (lock.whence != kSeekSet) {
    return Errno::EINVAL;
  }
  return byte_range(base, lock.start, lock.length);
}

// Returns the open file of the descriptor in argument 0. EBADF; EINVAL if the file's device has no
// locks.
Result<Ref<Chan>> lockable(const SystemCall& call) {
  Ref<Chan> chan = TRY(fd_get(*call.process.fds, call.integer(0)));
  if (!chan->device->one_offset())
    return fail(Errno::EINVAL, "#%s: files here have no locks", chan->device->name());
  return chan;
}

abi_flock found_to_user(const FoundLock& found, const abi_flock& asked) {
  abi_flock lock = asked;
  if (found.kind == LockKind::kNone) {
    lock.type = ABI_F_UNLCK;
    return lock;
  }
  const uint64_t first = found.range.first, last = found.range.last;
  lock.type = found.kind == LockKind::kShared ? ABI_F_RDLCK : ABI_F_WRLCK;
  lock.whence = kSeekSet;
  lock.start = static_cast<int64_t>(first);
  lock.length = last == ByteRange::kLastByte ? 0 : static_cast<int64_t>(last - first + 1);
  lock.pid = static_cast<int16_t>(found.pid);
  return lock;
}

}  // namespace

Result<int64_t> record_lock_command(const SystemCall& call) {
  // Whether another thread may close the descriptor. Asked before the descriptor is looked up,
  // because such a thread may close it and end.
  const bool has_others = call.process.thread_count > 1;
  const Ref<Chan> chan = TRY(lockable(call));
  abi_flock lock;
  TRY(get_user(call.arguments[2], lock));
  const LockKind kind = TRY(kind_of(lock.type));
  const ByteRange range = TRY(range_of(*chan, lock));
  FdTable& fds = *call.process.fds;
  const LockOwner owner = {.owner = &fds, .pid = call.process.pid};
  if (call.integer(1) == ABI_F_GETLK) {
    if (kind == LockKind::kNone) return Errno::EINVAL;
    TRY(put_user(call.arguments[2],
                 found_to_user(record_lock_find(*chan, owner, kind, range), lock)));
    return 0;
  }
  const uint32_t access = chan->open_flags & ABI_O_ACCMODE;
  if (access == (kind == LockKind::kShared ? ABI_O_WRONLY : ABI_O_RDONLY) &&
      kind != LockKind::kNone)
    return fail(Errno::EBADF,
                "a shared lock requires a file that is open for reading, an exclusive lock one "
                "that is open for writing");
  fd_may_have_locks(fds);
  const LockDescriptor descriptor = {fds, call.integer(0)};
  TRY(record_lock_set(*chan, owner, kind, range,
                      call.integer(1) == ABI_F_SETLKW ? LockWait::kYes : LockWait::kNo,
                      has_others ? &descriptor : nullptr));
  return 0;
}

Result<int64_t> sys_flock(const SystemCall& call) {
  const uint32_t operation = call.word(1), kind = operation & ~uint32_t{ABI_LOCK_NB};
  if (kind != ABI_LOCK_SH && kind != ABI_LOCK_EX && kind != ABI_LOCK_UN) return Errno::EINVAL;
  const Ref<Chan> chan = TRY(lockable(call));
  TRY(open_file_lock_set(*chan,
                         kind == ABI_LOCK_SH   ? LockKind::kShared
                         : kind == ABI_LOCK_EX ? LockKind::kExclusive
                                               : LockKind::kNone,
                         operation & ABI_LOCK_NB ? LockWait::kNo : LockWait::kYes));
  return 0;
}
