// System calls on paths.
#include <algorithm>

#include "lib/string.h"
#include "proc/ref_planted.h"
#include "proc/system_call.h"

namespace {

constexpr int kOpenRead = 4, kOpenWrite = 2, kOpenExecute = 1;  // access: R_OK, W_OK, X_OK

Result<Ref<Chan>> walk_argument(const SystemCall& call, unsigned i) {
  UserPath path;
  TRY(path.copy(call.arguments[i]));
  return path_walk(call.process.path_context(), path.view());
}

Result<void> change_directory(Process& process, Ref<Chan> chan) {
  abi_stat stat;
  TRY(chan->device->stat(*chan, stat));
  if (!chan->qid.directory) return Errno::ENOTDIR;
  if (!permitted(stat.mode, stat.uid, stat.gid, process.who, kOpenExecute)) return Errno::EACCES;
  process.cwd = std::move(chan);
  return {};
}

// `name` of `length` bytes and its NUL into the `room` bytes at `address`. ERANGE.
Result<int64_t> put_name(const char* name, size_t length, uint64_t address, uint64_t room) {
  if (length + 1 > room) return Errno::ERANGE;
  TRY(copy_to_user(address, name, length + 1));
  return static_cast<int64_t>(length + 1);
}

Result<int64_t> remove(const SystemCall& call, bool directory) {
  UserPath path;
  TRY(path.copy(call.arguments[0]));
  TRY(path_remove(call.process.path_context(), path.view(), directory));
  return 0;
}

}  // namespace

Result<int64_t> sys_open(const SystemCall& call) {
  UserPath path;
  TRY(path.copy(call.arguments[0]));
  const uint32_t flags = call.word(1), mode = call.word(2) & 07777 & ~call.process.umask;
  if ((flags & ABI_O_ACCMODE) == ABI_O_ACCMODE || (flags & kOpenToExecute)) return Errno::EINVAL;
  Ref<Chan> chan = TRY(path_open(call.process.path_context(), path.view(), flags, mode));
  if ((flags & ABI_O_DIRECTORY) && !chan->qid.directory) return Errno::ENOTDIR;
  return TRY(fd_install(*call.process.fds, std::move(chan), flags & ABI_O_CLOEXEC));
}

Result<int64_t> sys_stat(const SystemCall& call) {
  const Ref<Chan> chan = TRY(walk_argument(call, 0));
  abi_stat stat;
  TRY(chan->device->stat(*chan, stat));
  TRY(put_user(call.arguments[1], stat));
  return 0;
}

Result<int64_t> sys_access(const SystemCall& call) {
  const uint32_t want = call.word(1);
  if (want & ~static_cast<uint32_t>(kOpenRead | kOpenWrite | kOpenExecute)) return Errno::EINVAL;
  UserPath path;
  TRY(path.copy(call.arguments[0]));
  PathContext context = call.process.path_context();
  context.who = context.who.real();
  const Ref<Chan> chan = TRY(path_walk(context, path.view()));
  abi_stat stat;
  TRY(chan->device->stat(*chan, stat));
  if (!permitted(stat.mode, stat.uid, stat.gid, context.who, want)) return Errno::EACCES;
  // Root too executes only what somebody may execute.
  if ((want & kOpenExecute) && !chan->qid.directory && (stat.mode & 0111) == 0)
    return Errno::EACCES;
  return 0;
}

Result<int64_t> sys_chdir(const SystemCall& call) {
  TRY(change_directory(call.process, TRY(walk_argument(call, 0))));
  planted_directory_changed(call.process);
  return 0;
}

Result<int64_t> sys_fchdir(const SystemCall& call) {
  const Ref<Chan> open = TRY(fd_get(*call.process.fds, call.integer(0)));
  if (!open->qid.directory) return Errno::ENOTDIR;
  const PathContext context = call.process.path_context();
  char name[kMaxPath];
  const size_t length = TRY(chan_present_name(*context.ns, *open, name));
  Ref<Chan> chan = TRY(path_walk(context, {name, length}));
  if (chan->device != open->device || !(chan->qid == open->qid)) return Errno::ENOENT;
  TRY(change_directory(call.process, std::move(chan)));
  return 0;
}

Result<int64_t> sys_getcwd(const SystemCall& call) {
  const Process& process = call.process;
  char name[kMaxPath] = "/";
  size_t length = 1;
  if (process.cwd) {
    abi_stat stat;
    TRY(process.cwd->device->stat(*process.cwd, stat));
    if (stat.nlink == 0) return Errno::ENOENT;
    length = TRY(chan_present_name(*call.process.path_context().ns, *process.cwd, name));
  }
  return put_name(name, length, call.arguments[0], call.arguments[1]);
}

Result<int64_t> sys_fd2path(const SystemCall& call) {
  const Ref<Chan> chan = TRY(fd_get(*call.process.fds, call.integer(0)));
  char name[kMaxPath];
  const size_t length = TRY(chan_present_name(*call.process.path_context().ns, *chan, name));
  return put_name(name, length, call.arguments[1], call.arguments[2]);
}

Result<int64_t> sys_mkdir(const SystemCall& call) {
  UserPath path;
  TRY(path.copy(call.arguments[0]));
  TRY(path_mkdir(call.process.path_context(), path.view(),
                 call.word(1) & 07777 & ~call.process.umask));
  return 0;
}

Result<int64_t> sys_rmdir(const SystemCall& call) {
  return remove(call, true);
}
Result<int64_t> sys_unlink(const SystemCall& call) {
  return remove(call, false);
}

Result<int64_t> sys_rename(const SystemCall& call) {
  UserPath from, to;
  TRY(from.copy(call.arguments[0]));
  TRY(to.copy(call.arguments[1]));
  TRY(path_rename(call.process.path_context(), from.view(), to.view()));
  return 0;
}

Result<int64_t> sys_chmod(const SystemCall& call) {
  const Ref<Chan> chan = TRY(walk_argument(call, 0));
  TRY(chan->device->chmod(*chan, call.word(1) & 07777, call.process.who));
  return 0;
}

Result<int64_t> sys_truncate(const SystemCall& call) {
  if (call.arguments[1] > INT64_MAX) return Errno::EINVAL;
  UserPath path;
  TRY(path.copy(call.arguments[0]));
  TRY(path_truncate(call.process.path_context(), path.view(), call.arguments[1]));
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
