// Operations by path.
//
// Each call walks the path (walk.cc), checks the permissions, and calls the device. Creation,
// removal and renaming require write permission in the directory. In a directory with the sticky
// bit, only root and the owners of the file or of the directory may remove or rename the file.
// Other processes may change files between these checks and the operation. So some devices, such as
// #tmp, check again in one atomic step with the operation.
//
// A symbolic link at the end of a path is followed, except by operations on the name itself:
// creation, removal and renaming. Opening a dangling link with ABI_O_CREAT creates its target.

#include <algorithm>

#include "core/errstr.h"
#include "core/planted.h"
#include "kmalloc.h"
#include "lib/format.h"
#include "lib/string.h"
#include "ns/chan_impl.h"
#include "ns/mount_impl.h"
#include "ns/walk_impl.h"

namespace {

// Sticky bit: only the owner of the file or of the directory, and root, may remove or rename it.
Result<void> check_sticky(Chan& directory, Chan& chan, const Credentials& who) {
  if (who.uid == 0) return {};
  abi_stat of_directory, of_file;
  TRY(directory.device->stat(directory, of_directory));
  if (!(of_directory.mode & 01000) || of_directory.uid == who.uid) return {};
  TRY(chan.device->stat(chan, of_file));
  return of_file.uid == who.uid ? Result<void>{} : Errno::EPERM;
}

// As with Linux's fs.protected_hardlinks: who does not own a file may link it only if it is an
// ordinary file that he may read and write, and that gives no rights to who executes it. Otherwise
// users could keep a program that its owner has replaced, or the memory of others' files.
Result<void> check_link(Chan& chan, const Credentials& who) {
  if (who.uid == 0) return {};
  abi_stat stat;
  TRY(chan.device->stat(chan, stat));
  if (stat.uid == who.uid) return {};
  const bool gives_rights = (stat.mode & 04000) || (stat.mode & 02010) == 02010;
  if ((stat.mode & ABI_S_IFMT) != ABI_S_IFREG || gives_rights ||
      !permitted(stat.mode, stat.uid, stat.gid, who, 6))
    return fail(Errno::EPERM, "the file is not yours");
  return {};
}

// Opens the other members of the union that begins with `chan`, an open directory.
Result<void> open_union(const PathContext& context, Chan& chan, uint32_t flags) {
  if (!chan.mount_device) return {};
  Chan* last = &chan;
  for (size_t i = 1;; ++i) {
    Ref<Chan> member = context.ns->member(chan.mount_device, chan.mount_path, i);
    if (!member) return {};
    Ref<Chan> copy = TRY(member->clone());
    Result<Ref<Chan>> opened = member->device->open(std::move(copy), flags, context.who);
    if (!opened && opened.error() == Errno::ENOMEM) return opened.error();
    if (!opened) continue;  // a member that cannot be opened is skipped
    last->union_next = opened.take();
    last = last->union_next.get();
    last->charge = TRY(charge_current(Charged::kFile));
    last->opener = context.who;
  }
}

// Saves the fields that the walk has set in a channel, for devices whose open returns another
// channel.
struct Reached {
  explicit Reached(Chan& chan)
      : device(chan.mount_device), path(chan.mount_path), named_at(chan.named_at) {}
  void restore(Chan& chan) const {
    chan.mount_device = device;
    chan.mount_path = path;
    chan.named_at = named_at;
  }
  Device* const device;
  const uint64_t path, named_at;
};

// Registers the use of `chan`, which has been opened or created with `flags`. Called after the
// device has checked the permissions, because a caller without permission to execute a program must
// not block its writers.
Result<void> begin_use(Chan& chan, uint32_t flags, FileUseReserve& reserve) {
  if (flags & kOpenToExecute) return file_use_begin(chan, FileUse::kExecuted, reserve);
  if (chan.qid.directory || !(wanted_by_open(flags) & 2)) return {};
  return file_use_begin(chan, FileUse::kWritten, reserve);
}

// Begins the use of an existing open file that an open has found. If the file is to be executed, it
// counts as executed until its last descriptor is closed; it does so only for a caller who may
// execute it.
Result<Ref<Chan>> begin_existing(Ref<Chan> opened, uint32_t flags, const Credentials& who) {
  if (!(flags & kOpenToExecute)) return opened;
  abi_stat stat;
  TRY(opened->device->stat(*opened, stat));
  if ((stat.mode & ABI_S_IFMT) != ABI_S_IFREG || (stat.mode & 0111) == 0 ||
      !permitted(stat.mode, stat.uid, stat.gid, who, 1))
    return Errno::EACCES;
  TRY(file_use_begin(*opened, FileUse::kExecuted));
  return opened;
}

Result<Ref<Chan>> open_found(const PathContext& context, Ref<Chan> chan, uint32_t flags) {
  if (flags & ABI_O_DIRECTORY && !chan->qid.directory) return Errno::ENOTDIR;
  if (chan->qid.directory && (flags & ABI_O_ACCMODE) != ABI_O_RDONLY) return Errno::EISDIR;
  Charge charge = TRY(charge_current(Charged::kFile));
  const Reached reached(*chan);
  // The reference count would not tell: the other users may close the file at any time.
  const bool is_existing = !chan->qid.fifo && chan->device->opens_existing(*chan);
  char* const path = std::exchange(chan->path, nullptr);  // the path moves to the opened channel
  Chan* const before = chan.get();
  Device* const device = chan->device;
  Ref<Chan> held = chan;  // so that a failed open can put the path back
  Result<Ref<Chan>> result = chan->qid.fifo ? fifo_open(std::move(chan), flags, context.who)
                                            : device->open(std::move(chan), flags, context.who);
  if (!result) {
    before->path = path;
    return result;
  }
  Ref<Chan> opened = result.take();
  const bool seems_new = planted(Planted::kDevfdRace) && opened->ref_count() == 1;
  if (seems_new) opened->used_file = nullptr;  // an existing file is counted twice
  if (is_existing && !seems_new) {
    kfree(path);
    return begin_existing(std::move(opened), flags, context.who);
  }
  opened->path = path;
  opened->opener = context.who;
  opened->charge = std::move(charge);
  reached.restore(*opened);
  FileUseReserve reserve;
  TRY(begin_use(*opened, flags, reserve));
  if (opened->qid.directory) TRY(open_union(context, *opened, flags));
  if ((flags & ABI_O_TRUNC) && !opened->qid.directory) {
    Result<void> truncated = opened->device->truncate(*opened, 0, context.who);
    if (!truncated && truncated.error() != Errno::EINVAL)
      return truncated.error();  // EINVAL: the file has no size to set
  }
  return opened;
}

// The result of a walk to a name that is to be created.
struct Making {
  Ref<Chan> directory;  // the directory for the new file; in a union, the member for new files
  Ref<Chan> named;      // channel that has the path of the new file
};
// Makes all checks, and sets the path of the new file. Called before the file is created, so that a
// failure leaves no file behind.
Result<Making> begin_making(Walk& walk, std::string_view name) {
  Making making;
  making.directory = TRY(walk.creation_member());
  TRY(walk.check(walk.at(), 1));
  TRY(walk.check(*making.directory, 3));
  making.named = TRY(walk.finish());
  const char* const parent = making.named->path;
  const bool slash = parent[strlen(parent) - 1] != '/';
  PathBuffer path;
  TRY(path.fill());
  const int length = format(path.path(), kMaxPath, "%s%s%.*s", parent, slash ? "/" : "",
                            static_cast<int>(name.size()), name.data());
  if (static_cast<size_t>(length) >= kMaxPath) return Errno::ENAMETOOLONG;
  TRY(chan_set_path(*making.named, {path.path(), static_cast<size_t>(length)}));
  return making;
}

Result<Ref<Chan>> create_at(const PathContext& context, std::string_view path, uint32_t flags,
                            uint32_t mode, Links links) {
  Walk walk(context, Name::kPresent);
  std::string_view name;
  TRY(walk.to_new(path, links, name));
  Making making = TRY(begin_making(walk, name));
  FileUseReserve reserve;
  TRY(reserve.fill());
  Charge charge = TRY(charge_current(Charged::kFile));
  Ref<Chan> made =
      TRY(making.directory->device->create(*making.directory, name, flags, mode, context.who));
  std::swap(made->path, making.named->path);
  made->named_at = making.named->named_at.load();
  made->opener = context.who;
  made->charge = std::move(charge);
  TRY(begin_use(*made, flags, reserve));
  return made;
}

Result<Ref<Chan>> walk_path(const PathContext& context, std::string_view path, Name name,
                            Links links) {
  Walk walk(context, name);
  TRY(walk.to(path, Last::kCross, links));
  return walk.finish();
}

// A file whose name is to be removed, and the directory that has this name.
struct Named {
  Ref<Chan> chan, parent;
};
Result<Named> find_named(const PathContext& context, std::string_view path) {
  Named found;
  Walk walk(context);
  TRY(walk.to(path, Last::kStay, Links::kNotLast));
  if (!walk.found_in()) return Errno::EINVAL;
  found.parent = Ref<Chan>(walk.found_in());
  found.chan = TRY(walk.finish());
  if (context.ns->member(found.chan->device, found.chan->qid.path, 0))
    return fail(Errno::EBUSY, "something is bound there");
  TRY(walk.check(*found.parent, 3));
  TRY(check_sticky(*found.parent, *found.chan, context.who));
  return found;
}

// Undoes the binds on a file that has no name any more, since no path leads to them. A bind and the
// removal of its target may run at once, so both call this after they have done their work: the
// later of the two finds that the file is gone and bound. True if the file is gone.
bool unmount_if_gone(Namespace& ns, Chan& file) {
  if (!ns.member(file.device, file.qid.path, 0)) return false;
  abi_stat stat;
  if (file.device->stat(file, stat) && stat.nlink != 0) return false;
  static_cast<void>(ns.unmount(file));  // EINVAL if the other one has done it
  return true;
}

}  // namespace

Result<Ref<Chan>> path_walk(const PathContext& context, std::string_view path, Links links) {
  if (path.ends_with('/') && links == Links::kNotLast) links = Links::kFollow;
  return walk_path(context, path, Name::kAsReached, links);
}

Result<Ref<Chan>> path_open(const PathContext& context, std::string_view path, uint32_t flags,
                            uint32_t mode) {
  const bool creates = flags & ABI_O_CREAT, exclusive = creates && (flags & ABI_O_EXCL);
  const Links links = flags & ABI_O_NOFOLLOW || exclusive ? Links::kNotLast : Links::kFollow;
  // Two cases need another attempt. First, if another process creates the file between the walk and
  // create_at(), create_at() fails with EEXIST. The next walk finds the file, unless the file has
  // been removed by then. Second, if `path` is a dangling link, the walk fails with ENOENT and the
  // first create_at() with EEXIST, because it does not follow the link. The second create_at()
  // follows the link.
  for (int attempt = 0;; ++attempt) {
    Result<Ref<Chan>> found = walk_path(context, path, Name::kPresent, links);
    if (found) {
      if (exclusive) return Errno::EEXIST;
      if ((*found)->qid.symlink) return fail(Errno::ELOOP, "the last name is a symbolic link");
      return open_found(context, found.take(), flags);
    }
    if (found.error() != Errno::ENOENT || !creates) return found;
    if (path.ends_with('/')) return Errno::EISDIR;
    Result<Ref<Chan>> made = create_at(context, path, flags, (mode & 07777) | ABI_S_IFREG,
                                       attempt == 0 ? Links::kNotLast : links);
    if (made || made.error() != Errno::EEXIST || exclusive || attempt > 1) return made;
  }
}

Result<void> path_make(const PathContext& context, std::string_view path, uint32_t mode) {
  Result<Ref<Chan>> found = walk_path(context, path, Name::kAsReached, Links::kNotLast);
  if (found) return Errno::EEXIST;
  if (found.error() != Errno::ENOENT) return found.error();
  if ((mode & ABI_S_IFMT) != ABI_S_IFDIR && path.ends_with('/')) return Errno::ENOENT;
  TRY(create_at(context, path, ABI_O_RDONLY, mode, Links::kNotLast));
  return {};
}

Result<void> path_symlink(const PathContext& context, std::string_view target,
                          std::string_view path) {
  if (target.empty()) return Errno::ENOENT;
  if (target.size() >= kMaxPath) return Errno::ENAMETOOLONG;
  if (path.ends_with('/')) return Errno::ENOENT;
  Walk walk(context);
  std::string_view name;
  TRY(walk.to_new(path, Links::kNotLast, name));
  Making making = TRY(begin_making(walk, name));
  return making.directory->device->symlink(*making.directory, name, target, context.who);
}

Result<void> path_link(const PathContext& from_context, std::string_view from,
                       const PathContext& context, std::string_view to, Links links) {
  if (to.ends_with('/')) return Errno::ENOENT;
  Ref<Chan> chan = TRY(path_walk(from_context, from, links));
  if (chan->qid.directory) return fail(Errno::EPERM, "a directory cannot have a second name");
  TRY(check_link(*chan, context.who));
  Walk walk(context);
  std::string_view name;
  TRY(walk.to_new(to, Links::kNotLast, name));
  Making making = TRY(begin_making(walk, name));
  if (making.directory->device != chan->device) return Errno::EXDEV;
  return chan->device->link(*chan, {*making.directory, name}, context.who);
}

Result<void> path_remove(const PathContext& context, std::string_view path, bool directory) {
  const Split parts = TRY(split(path));
  const Named named = TRY(find_named(context, path));
  Chan& chan = *named.chan;
  if (directory && !chan.qid.directory) return Errno::ENOTDIR;
  if (!directory && chan.qid.directory) return Errno::EISDIR;
  TRY(chan.device->remove(chan, {*named.parent, parts.name}, context.who));
  unmount_if_gone(*context.ns, chan);
  return {};
}

Result<void> path_rename(const PathContext& from_context, std::string_view from,
                         const PathContext& context, std::string_view to) {
  const Split source = TRY(split(from)), target = TRY(split(to));
  const Named named = TRY(find_named(from_context, from));
  Chan& chan = *named.chan;
  Walk walk(context);
  TRY(walk.to(target.directory, Last::kCross));
  if (!walk.at().qid.directory) return Errno::ENOTDIR;
  if (to.ends_with('/') && !chan.qid.directory) return Errno::ENOTDIR;
  Ref<Chan> directory;
  Result<Ref<Chan>> existing = walk.lookup(target.name, directory);
  if (existing) {
    TRY(check_sticky(*directory, **existing, context.who));
    if (context.ns->member((*existing)->device, (*existing)->qid.path, 0))
      return fail(Errno::EBUSY, "something is bound there");
  } else {
    if (existing.error() != Errno::ENOENT) return existing.error();
    directory = TRY(walk.creation_member());
  }
  TRY(walk.check(*directory, 3));
  if (directory->device != chan.device) return Errno::EXDEV;
  TRY(chan.device->rename(chan, {*named.parent, source.name}, {*directory, target.name},
                          context.who));
  if (existing) unmount_if_gone(*context.ns, **existing);
  if (chan.qid.directory) directory_renamed();
  return {};
}

Result<void> path_truncate(const PathContext& context, std::string_view path, uint64_t size) {
  Walk walk(context);
  TRY(walk.to(path, Last::kCross));
  const Ref<Chan> chan = TRY(walk.finish());
  if (chan->qid.directory) return Errno::EISDIR;
  TRY(walk.check(*chan, 2));
  TRY(file_use_begin(*chan, FileUse::kWritten));
  return chan->device->truncate(*chan, size, context.who);
}

Result<void> path_bind(const PathContext& context, std::string_view source, std::string_view target,
                       uint32_t flags) {
  if (context.who.uid != 0)
    return fail(Errno::EPERM, "the namespace is shared: only root may bind");
  const uint32_t order = flags & (ABI_BIND_BEFORE | ABI_BIND_AFTER);
  if ((flags & ~(ABI_BIND_BEFORE | ABI_BIND_AFTER | ABI_BIND_CREATE)) ||
      order == (ABI_BIND_BEFORE | ABI_BIND_AFTER))
    return fail(Errno::EINVAL, "bind takes before or after, and create");
  Ref<Chan> what = TRY(path_walk(context, source));
  Walk walk(context, Name::kPresent);
  TRY(walk.to(target, Last::kStay));
  Ref<Chan> where = TRY(walk.finish());
  if (what->qid.directory != where->qid.directory) {
    if (planted(Planted::kBindKind)) static_cast<void>(what.release());
    return fail(where->qid.directory ? Errno::EISDIR : Errno::ENOTDIR,
                "a directory can cover only a directory, a file only a file");
  }
  if (order && !what->qid.directory)
    return fail(Errno::EINVAL, "only directories can form a union");
  if (order && context.ns->member_count(where->device, where->qid.path) >= kMostMembers)
    return fail(Errno::ENOSPC, "a union has at most %zu directories", kMostMembers);
  if (what->device == where->device && what->qid == where->qid && !order)
    return fail(Errno::EINVAL, "a file cannot be bound to itself");
  TRY(context.ns->bind(std::move(what), where, flags));
  return unmount_if_gone(*context.ns, *where) ? Errno::ENOENT : Result<void>();
}

Result<void> path_unmount(const PathContext& context, std::string_view target) {
  if (context.who.uid != 0)
    return fail(Errno::EPERM, "the namespace is shared: only root may unmount");
  Walk walk(context);
  TRY(walk.to(target, Last::kStay));
  return context.ns->unmount(walk.at());
}
