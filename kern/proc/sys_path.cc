// System calls on paths.
#include <algorithm>

#include "core/errstr.h"
#include "lib/string.h"
#include "proc/kept_planted_impl.h"
#include "proc/ref_planted_impl.h"
#include "proc/system_call_impl.h"

namespace {

constexpr int kOpenRead = 4, kOpenWrite = 2, kOpenExecute = 1;  // access: R_OK, W_OK, X_OK

// Returns `flags`; EINVAL if it contains flags that are not in `known`.
Result<uint32_t> known_flags(uint32_t flags, uint32_t known) {
  return flags & ~known ? Result<uint32_t>(Errno::EINVAL) : Result<uint32_t>(flags);
}

Result<void> change_directory(Process& process, Ref<Chan> chan) {
  abi_stat stat;
  TRY(chan->device->stat(*chan, stat));
  if (!chan->qid.directory) return Errno::ENOTDIR;
  if (!permitted(stat.mode, stat.uid, stat.gid, process.credentials(), kOpenExecute))
    return Errno::EACCES;
  const Guard guard(process.paths_lock);
  std::swap(process.cwd, chan);  // the old directory is released after the unlock
  return {};
}

// Copies `name` of `length` bytes and its NUL to the `room` bytes at `address`. ERANGE.
Result<int64_t> put_name(const char* name, size_t length, uint64_t address, uint64_t room) {
  if (length + 1 > room) return Errno::ERANGE;
  TRY(copy_to_user(address, name, length + 1));
  return static_cast<int64_t>(length + 1);
}

// Changes attributes of the file that arguments 0 and 1 name; argument `i` has the flags.
Result<int64_t> change_attributes(const SystemCall& call, unsigned i,
                                  const AttributeChange& change) {
  PathAt path;
  TRY(path.copy(call, 0,
                TRY(known_flags(call.word(i), ABI_AT_SYMLINK_NOFOLLOW | ABI_AT_EMPTY_PATH))));
  const Ref<Chan> chan = TRY(path.walk());
  if (change.mode && chan->qid.symlink)
    return fail(Errno::ENOTSUP, "a symbolic link has no permissions of its own");
  TRY(chan->device->set_attributes(*chan, change, call.process.credentials()));
  return 0;
}

// Translates a time of utimens. EINVAL.
Result<std::optional<AttributeChange::Time>> time_argument(const abi_timespec& time) {
  using Time = AttributeChange::Time;
  if (time.nsec == ABI_UTIME_OMIT) return std::optional<Time>();
  if (time.nsec == ABI_UTIME_NOW) return std::optional<Time>({.now = true, .at = {}});
  if (time.nsec < 0 || time.nsec >= 1'000'000'000) return Errno::EINVAL;
  return std::optional<Time>({.now = false, .at = time});
}

}  // namespace

Result<int64_t> sys_open(const SystemCall& call) {
  const uint32_t flags = call.word(2), mode = call.word(3) & 07777 & ~call.process.umask;
  if ((flags & ABI_O_ACCMODE) == ABI_O_ACCMODE || (flags & kOpenToExecute)) return Errno::EINVAL;
  PathAt path;
  TRY(path.copy(call, 0));
  Ref<Chan> chan = TRY(path_open(path.context(), path.view(), flags, mode));
  if ((flags & ABI_O_DIRECTORY) && !chan->qid.directory) return Errno::ENOTDIR;
  return TRY(fd_install(*call.process.fds, std::move(chan), flags & ABI_O_CLOEXEC));
}

Result<int64_t> sys_stat(const SystemCall& call) {
  PathAt path;
  TRY(path.copy(call, 0,
                TRY(known_flags(call.word(3), ABI_AT_SYMLINK_NOFOLLOW | ABI_AT_EMPTY_PATH))));
  const Ref<Chan> chan = TRY(path.walk());
  abi_stat stat;
  TRY(chan->device->stat(*chan, stat));
  TRY(put_user(call.arguments[2], stat));
  return 0;
}

Result<int64_t> sys_access(const SystemCall& call) {
  const uint32_t want = call.word(2);
  const uint32_t flags =
      TRY(known_flags(call.word(3), ABI_AT_EACCESS | ABI_AT_SYMLINK_NOFOLLOW | ABI_AT_EMPTY_PATH));
  if (want & ~static_cast<uint32_t>(kOpenRead | kOpenWrite | kOpenExecute)) return Errno::EINVAL;
  PathAt path;
  TRY(path.copy(call, 0, flags));
  if (!(flags & ABI_AT_EACCESS)) path.act_as(call.process.credentials().real());
  const Ref<Chan> chan = TRY(path.walk());
  abi_stat stat;
  TRY(chan->device->stat(*chan, stat));
  if (!permitted(stat.mode, stat.uid, stat.gid, path.context().who, want)) return Errno::EACCES;
  // Even root executes only files with some execute permission.
  if ((want & kOpenExecute) && !chan->qid.directory && (stat.mode & 0111) == 0)
    return Errno::EACCES;
  return 0;
}

Result<int64_t> sys_chdir(const SystemCall& call) {
  UserPath path;
  TRY(path.copy(call.arguments[0]));
  TRY(change_directory(call.process, TRY(path_walk(call.process.path_context(), path.view()))));
  planted_directory_changed(call.process);
  planted_keep();
  return 0;
}

Result<int64_t> sys_fchdir(const SystemCall& call) {
  const Ref<Chan> open = TRY(fd_get(*call.process.fds, call.integer(0)));
  if (!open->qid.directory) return Errno::ENOTDIR;
  PathContext context = call.process.path_context();
  context.cwd = open;
  TRY(change_directory(call.process, TRY(path_walk(context, "."))));
  return 0;
}

Result<int64_t> sys_getcwd(const SystemCall& call) {
  const PathContext context = call.process.path_context();
  PathBuffer name;
  TRY(name.fill());
  name.path()[0] = '/';
  name.path()[1] = '\0';
  size_t length = 1;
  if (context.cwd) {
    abi_stat stat;
    TRY(context.cwd->device->stat(*context.cwd, stat));
    if (stat.nlink == 0) return Errno::ENOENT;
    length = TRY(chan_present_name(*context.ns, *context.cwd, name.path()));
  }
  return put_name(name.path(), length, call.arguments[0], call.arguments[1]);
}

Result<int64_t> sys_fd2path(const SystemCall& call) {
  const Ref<Chan> chan = TRY(fd_get(*call.process.fds, call.integer(0)));
  PathBuffer name;
  TRY(name.fill());
  const size_t length = TRY(chan_present_name(*call.process.ns, *chan, name.path()));
  return put_name(name.path(), length, call.arguments[1], call.arguments[2]);
}

Result<int64_t> sys_mkdir(const SystemCall& call) {
  PathAt path;
  TRY(path.copy(call, 0));
  TRY(path_make(path.context(), path.view(),
                (call.word(2) & 07777 & ~call.process.umask) | ABI_S_IFDIR));
  return 0;
}

Result<int64_t> sys_mknod(const SystemCall& call) {
  const uint32_t mode = call.word(2), given = mode & ABI_S_IFMT;
  const uint32_t type = given == 0 ? ABI_S_IFREG : given;
  if (type != ABI_S_IFREG && type != ABI_S_IFIFO)
    return fail(Errno::EPERM,
                "mknod makes only files and FIFOs; bind brings a device into the namespace");
  PathAt path;
  TRY(path.copy(call, 0));
  TRY(path_make(path.context(), path.view(), (mode & 07777 & ~call.process.umask) | type));
  return 0;
}

Result<int64_t> sys_unlink(const SystemCall& call) {
  const uint32_t flags = TRY(known_flags(call.word(2), ABI_AT_REMOVEDIR));
  PathAt path;
  TRY(path.copy(call, 0));
  TRY(path_remove(path.context(), path.view(), flags & ABI_AT_REMOVEDIR));
  return 0;
}

Result<int64_t> sys_rename(const SystemCall& call) {
  PathAt from, to;
  TRY(from.copy(call, 0));
  TRY(to.copy(call, 2));
  TRY(path_rename(from.context(), from.view(), to.context(), to.view()));
  return 0;
}

Result<int64_t> sys_link(const SystemCall& call) {
  const uint32_t flags = TRY(known_flags(call.word(4), ABI_AT_SYMLINK_FOLLOW));
  PathAt from, to;
  TRY(from.copy(call, 0));
  TRY(to.copy(call, 2));
  TRY(path_link(from.context(), from.view(), to.context(), to.view(),
                flags & ABI_AT_SYMLINK_FOLLOW ? Links::kFollow : Links::kNotLast));
  return 0;
}

Result<int64_t> sys_symlink(const SystemCall& call) {
  UserPath target;
  TRY(target.copy(call.arguments[0]));
  PathAt path;
  TRY(path.copy(call, 1));
  TRY(path_symlink(path.context(), target.view(), path.view()));
  return 0;
}

Result<int64_t> sys_readlink(const SystemCall& call) {
  PathAt path;
  TRY(path.copy(call, 0, ABI_AT_SYMLINK_NOFOLLOW));
  const Ref<Chan> chan = TRY(path.walk());
  if (!chan->qid.symlink) return fail(Errno::EINVAL, "not a symbolic link");
  if (call.arguments[3] == 0) return Errno::EINVAL;
  PathBuffer target;
  TRY(target.fill());
  const size_t size =
      std::min<uint64_t>(TRY(chan->device->readlink(*chan, target.path())), call.arguments[3]);
  TRY(copy_to_user(call.arguments[2], target.path(), size));
  return static_cast<int64_t>(size);
}

Result<int64_t> sys_chmod(const SystemCall& call) {
  AttributeChange change;
  change.mode = call.word(2) & 07777;
  return change_attributes(call, 3, change);
}

Result<int64_t> sys_chown(const SystemCall& call) {
  AttributeChange change;
  if (call.word(2) != UINT32_MAX) change.uid = call.word(2);
  if (call.word(3) != UINT32_MAX) change.gid = call.word(3);
  return change_attributes(call, 4, change);
}

Result<int64_t> sys_utimens(const SystemCall& call) {
  abi_timespec times[2] = {{0, ABI_UTIME_NOW}, {0, ABI_UTIME_NOW}};
  if (call.arguments[2] != 0) TRY(get_user(call.arguments[2], times));
  AttributeChange change;
  change.accessed = TRY(time_argument(times[0]));
  change.modified = TRY(time_argument(times[1]));
  return change_attributes(call, 3, change);
}

Result<int64_t> sys_truncate(const SystemCall& call) {
  if (call.arguments[1] > INT64_MAX) return Errno::EINVAL;
  UserPath path;
  TRY(path.copy(call.arguments[0]));
  if (call.arguments[1] > call.process.limits.soft(ABI_RLIMIT_FSIZE)) {
    const Ref<Chan> file = TRY(path_walk(call.process.path_context(), path.view()));
    TRY(limit_allows_size(call.process, *file, call.arguments[1]));
  }
  TRY(path_truncate(call.process.path_context(), path.view(), call.arguments[1]));
  return 0;
}

Result<int64_t> sys_statfs(const SystemCall& call) {
  PathAt path;
  TRY(path.copy(call, 0, TRY(known_flags(call.word(3), ABI_AT_EMPTY_PATH))));
  const Ref<Chan> chan = TRY(path.walk());
  abi_statfs result;
  TRY(chan->device->statfs(*chan, result));
  TRY(put_user(call.arguments[2], result));
  return 0;
}

Result<int64_t> sys_bind(const SystemCall& call) {
  UserPath source, target;
  TRY(source.copy(call.arguments[0]));
  TRY(target.copy(call.arguments[1]));
  TRY(path_bind(call.process.path_context(), source.view(), target.view(), call.word(2)));
  return 0;
}

Result<int64_t> sys_unmount(const SystemCall& call) {
  UserPath target;
  TRY(target.copy(call.arguments[0]));
  TRY(path_unmount(call.process.path_context(), target.view()));
  return 0;
}
