// Path walk, and what is done by path.
//
// A walk starts at the root of the namespace (/…), at the root of a device (#name/…) or at the
// current directory and takes one step for each name: in a union the members are asked in order,
// then mounts at the file reached are crossed. The canonical name grows beside it and ends up in
// the channel that is returned. `.` stays; `..` takes the last name off the canonical name and
// walks to that from the start, so that it leads out of a mounted tree the way one came in, and
// devices need not know their parents. A name that has gone stale because a directory was renamed
// is mended first (present_name), as is the current directory's where the result of the walk is
// kept under its name; the current directory then keeps what it was mended to. The root is its own
// parent, and so is the root of a device that was reached by #name.
//
// Search permission is checked in every directory on the way; write permission in the directory for
// making, removing and renaming. A directory with the sticky bit lets only owners remove. Between
// these checks and the change others may change what was checked, so a device that can checks
// again, in one step with the change (#tmp).
//
// Nothing is locked during a walk. Each channel on the way is held by a Ref, and whichever way a
// walk ends they are let go.

#include <algorithm>

#include "core/errstr.h"
#include "core/planted.h"
#include "kmalloc.h"
#include "lib/format.h"
#include "lib/string.h"
#include "ns/chan.h"
#include "ns/mount.h"

namespace {

enum class Last { kCross, kStay };  // whether a mount at the last file of a walk is crossed
// Whether the name of the result begins with the current directory's present one, which costs a
// walk after a rename, or with the one that it was reached by.
enum class Name { kAsReached, kPresent };

class Walk {
 public:
  explicit Walk(const PathContext& context, Name name = Name::kAsReached)
      : context_(context), name_kind_(name) {}

  Result<void> to(std::string_view path, Last last) {
    if (path.empty()) return Errno::ENOENT;
    if (path.size() >= kMaxPath) return Errno::ENAMETOOLONG;
    TRY(start(path));
    return steps(path, last);
  }

  // The result with its name in it, held by nobody else.
  Result<Ref<Chan>> finish() {
    Ref<Chan> result = TRY(take());
    TRY(chan_set_path(*result, {name_, length_}));
    result->named_at = named_at_;
    return result;
  }

  Chan& at() { return *at_; }
  // The directory, a member of the union if it is one, in which the last step found `at`; nothing
  // after `.`, `..` or no step.
  Chan* found_in() { return found_in_.get(); }

  // The entry `name` of the directory reached, with the member of the union that has it.
  Result<Ref<Chan>> lookup(std::string_view name, Ref<Chan>& found_in) {
    if (name.size() > kMaxName) return Errno::ENAMETOOLONG;
    Chan& directory = *at_;
    if (!directory.qid.directory) return Errno::ENOTDIR;
    TRY(check(directory, 1));
    Namespace& ns = *context_.ns;
    if (!directory.mount_device ||
        ns.member_count(directory.mount_device, directory.mount_path) <= 1) {
      found_in = at_;
      return directory.device->walk(directory, name, context_.who);
    }
    for (size_t i = 0;; ++i) {
      Ref<Chan> member = ns.member(directory.mount_device, directory.mount_path, i);
      if (!member) return Errno::ENOENT;
      Result<Ref<Chan>> next = member->device->walk(*member, name, context_.who);
      if (!next && next.error() == Errno::ENOENT) continue;
      found_in = std::move(member);
      return next;
    }
  }

  // The member of the directory reached in which new files are made; EPERM if there is none.
  Result<Ref<Chan>> creation_member() {
    Chan& directory = *at_;
    Namespace& ns = *context_.ns;
    if (!directory.mount_device ||
        ns.member_count(directory.mount_device, directory.mount_path) <= 1)
      return Ref<Chan>(at_);
    bool create = false;
    for (size_t i = 0;; ++i) {
      Ref<Chan> member = ns.member(directory.mount_device, directory.mount_path, i, &create);
      if (!member) return fail(Errno::EPERM, "no part of this union takes new files");
      if (create) return member;
    }
  }

  Result<void> check(Chan& chan, uint32_t want) {
    if (context_.who.uid == 0) return {};
    abi_stat stat;
    TRY(chan.device->stat(chan, stat));
    if (!permitted(stat.mode, stat.uid, stat.gid, context_.who, want)) return Errno::EACCES;
    return {};
  }

 private:
  // Sets at_ and the name to where `path` begins and takes that off `path`.
  Result<void> start(std::string_view& path) {
    if (path.front() == '#') return start_device(path);
    if (path.front() == '/' || !context_.cwd || !context_.cwd->path) return start_root();
    Chan& cwd = *context_.cwd;
    at_ = Ref<Chan>(&cwd);
    length_ = chan_copy_path(cwd, name_, named_at_);
    if (name_kind_ == Name::kPresent) static_cast<void>(mend_name());
    return {};
  }

  Result<void> start_root() {
    at_ = Ref<Chan>(&context_.ns->root());
    TRY(cross());
    return set_name("/");
  }

  Result<void> start_device(std::string_view& path) {
    const std::string_view whole = path.substr(0, std::min(path.find('/'), path.size()));
    const std::string_view name = whole.substr(1, std::min(whole.find('.'), whole.size()) - 1);
    const std::string_view spec =
        whole.size() > name.size() + 1 ? whole.substr(name.size() + 2) : std::string_view{};
    Device* const device = device_find(name);
    if (!device)
      return fail(Errno::ENXIO, "#%.*s: no such device", static_cast<int>(name.size()),
                  name.data());
    at_ = TRY(device->attach(spec));
    TRY(cross());
    TRY(set_name(whole));
    path.remove_prefix(whole.size());
    return {};
  }

  // Makes the name one that leads to at_ now. What has been removed keeps the name that it had.
  Result<void> mend_name() {
    const uint64_t renames = directory_renames();
    if (named_at_ == renames) return {};
    const Result<void> mended = present_name(*context_.ns, *at_, named_at_, name_, length_);
    if (!mended) return mended.error() == Errno::ENOENT ? Result<void>() : mended;
    named_at_ = renames;
    if (at_.get() == context_.cwd) chan_keep_path(*at_, {name_, length_}, named_at_);
    return {};
  }

  Result<void> set_name(std::string_view name) {
    if (name.size() >= kMaxPath) return Errno::ENAMETOOLONG;
    memcpy(name_, name.data(), name.size());
    length_ = name.size();
    return {};
  }

  Result<void> steps(std::string_view path, Last last) {
    bool must_be_directory = false;
    while (!path.empty()) {
      if (path.front() == '/') {
        must_be_directory = true;
        path.remove_prefix(1);
        continue;
      }
      const std::string_view name = path.substr(0, std::min(path.find('/'), path.size()));
      path.remove_prefix(name.size());
      must_be_directory = false;
      const bool stay =
          last == Last::kStay && path.find_first_not_of('/') == std::string_view::npos;
      if (name == ".") {
        found_in_.reset();
        must_be_directory = true;
      } else if (name == "..") {
        if (!at_->qid.directory) return Errno::ENOTDIR;
        TRY(to_parent(stay ? Last::kStay : Last::kCross));
      } else {
        TRY(step(name, stay ? Last::kStay : Last::kCross));
      }
    }
    if (must_be_directory && !at_->qid.directory) return Errno::ENOTDIR;
    return {};
  }

  Result<void> step(std::string_view name, Last last) {
    Ref<Chan> found_in;
    Result<Ref<Chan>> found = lookup(name, found_in);
    if (!found && planted(Planted::kWalkError)) static_cast<void>(Ref<Chan>(at_).release());
    at_ = TRY(std::move(found));
    found_in_ = std::move(found_in);
    const bool slash = length_ > 0 && name_[length_ - 1] != '/';
    if (length_ + slash + name.size() >= kMaxPath) return Errno::ENAMETOOLONG;
    if (slash) name_[length_++] = '/';
    memcpy(name_ + length_, name.data(), name.size());
    length_ += name.size();
    return last == Last::kCross ? cross() : Result<void>{};
  }

  // Walks the canonical name without its last part. The names in it are neither `.` nor `..`, so
  // this does not come back here.
  Result<void> to_parent(Last last) {
    found_in_.reset();
    TRY(mend_name());
    size_t end = length_;
    while (end > 0 && name_[end - 1] != '/') --end;
    if (end == 0) return {};  // the root of a device
    while (end > 1 && name_[end - 1] == '/') --end;
    char parent[kMaxPath];
    memcpy(parent, name_, end);
    std::string_view path(parent, end);
    TRY(start(path));
    TRY(steps(path, last));
    found_in_.reset();
    return {};
  }

  // If something is mounted at the file reached, goes there.
  Result<void> cross() {
    Ref<Chan> mounted = context_.ns->member(at_->device, at_->qid.path, 0);
    if (!mounted) return {};
    Ref<Chan> crossed = TRY(mounted->clone());
    crossed->mount_device = at_->device;
    crossed->mount_path = at_->qid.path;
    at_ = std::move(crossed);
    return {};
  }

  // at_, or a copy if somebody else holds it too: the root, or the current directory.
  Result<Ref<Chan>> take() {
    if (at_->is_open) {  // a current directory set by descriptor
      char name[kMaxPath];
      memcpy(name, name_, length_);
      std::string_view path(name, length_);
      TRY(start(path));
      TRY(steps(path, Last::kCross));
    }
    if (at_.get() == context_.cwd || at_.get() == &context_.ns->root()) return at_->clone();
    return std::move(at_);
  }

  const PathContext& context_;
  const Name name_kind_;
  Ref<Chan> at_, found_in_;
  uint64_t named_at_ = directory_renames();
  size_t length_ = 0;
  char name_[kMaxPath];
};

// A path as the directory and the last name in it, of which something is to be made, removed or
// renamed.
struct Split {
  std::string_view directory, name;
};
Result<Split> split(std::string_view path) {
  while (path.size() > 1 && path.back() == '/') path.remove_suffix(1);
  if (path.empty()) return Errno::ENOENT;
  const size_t slash = path.rfind('/');
  Split parts;
  if (slash == std::string_view::npos) {
    if (path.front() == '#') return fail(Errno::EPERM, "the root of a device stays as it is");
    parts = {".", path};
  } else {
    parts = {path.substr(0, slash == 0 ? 1 : slash), path.substr(slash + 1)};
  }
  if (parts.name.empty() || parts.name == "." || parts.name == "..") return Errno::EINVAL;
  if (parts.name.size() > kMaxName) return Errno::ENAMETOOLONG;
  return parts;
}

// The sticky bit: only the owner of the file or of the directory, and root, may take a name away.
Result<void> check_sticky(Chan& directory, Chan& chan, const Credentials& who) {
  if (who.uid == 0) return {};
  abi_stat of_directory, of_file;
  TRY(directory.device->stat(directory, of_directory));
  if (!(of_directory.mode & 01000) || of_directory.uid == who.uid) return {};
  TRY(chan.device->stat(chan, of_file));
  return of_file.uid == who.uid ? Result<void>{} : Errno::EPERM;
}

// Opens the other members of the union that `chan`, an open directory, is the first of.
Result<void> open_union(const PathContext& context, Chan& chan, uint32_t flags) {
  if (!chan.mount_device) return {};
  Chan* last = &chan;
  for (size_t i = 1;; ++i) {
    Ref<Chan> member = context.ns->member(chan.mount_device, chan.mount_path, i);
    if (!member) return {};
    Ref<Chan> copy = TRY(member->clone());
    Result<Ref<Chan>> opened = member->device->open(std::move(copy), flags, context.who);
    if (!opened && opened.error() == Errno::ENOMEM) return opened.error();
    if (!opened) continue;  // what may not be read is not shown
    last->union_next = opened.take();
    last = last->union_next.get();
    last->opener = context.who;
  }
}

// Keeps what the walk learnt when a device gives another channel in place of the one that is
// opened.
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

// `chan` has been opened with `flags`. It comes after Device::open: somebody who may not open a
// program must not keep others from writing it.
Result<void> begin_use(Chan& chan, uint32_t flags, FileUseReserve& reserve) {
  if (flags & kOpenToExecute) return file_use_begin(chan, FileUse::kExecuted, reserve);
  if (chan.qid.directory || !(wanted_by_open(flags) & 2)) return {};
  return file_use_begin(chan, FileUse::kWritten, reserve);
}

Result<Ref<Chan>> open_found(const PathContext& context, Ref<Chan> chan, uint32_t flags) {
  if (flags & ABI_O_DIRECTORY && !chan->qid.directory) return Errno::ENOTDIR;
  if (chan->qid.directory && (flags & ABI_O_ACCMODE) != ABI_O_RDONLY) return Errno::EISDIR;
  const Reached reached(*chan);
  char* const path = std::exchange(chan->path, nullptr);  // goes over to what is opened
  Chan* const before = chan.get();
  Device* const device = chan->device;
  Ref<Chan> held = chan;  // so that a failed open does not lose it before the name is put back
  Result<Ref<Chan>> result = device->open(std::move(chan), flags, context.who);
  if (!result) {
    before->path = path;
    return result;
  }
  Ref<Chan> opened = result.take();
  if (opened.get() != before && opened->ref_count() > 1) {  // as dup: somebody else has it too
    kfree(path);
    return opened;
  }
  opened->path = path;
  opened->opener = context.who;
  reached.restore(*opened);
  FileUseReserve reserve;
  TRY(begin_use(*opened, flags, reserve));
  if (opened->qid.directory) TRY(open_union(context, *opened, flags));
  if ((flags & ABI_O_TRUNC) && !opened->qid.directory) {
    Result<void> truncated = opened->device->truncate(*opened, 0, context.who);
    if (!truncated && truncated.error() != Errno::EINVAL)
      return truncated.error();  // EINVAL: it has no size to set
  }
  return opened;
}

Result<Ref<Chan>> create_at(const PathContext& context, std::string_view path, uint32_t flags,
                            uint32_t mode) {
  const Split parts = TRY(split(path));
  Walk walk(context, Name::kPresent);
  TRY(walk.to(parts.directory, Last::kCross));
  if (!walk.at().qid.directory) return Errno::ENOTDIR;
  Ref<Chan> directory = TRY(walk.creation_member());
  TRY(walk.check(walk.at(), 1));
  TRY(walk.check(*directory, 3));
  // All that can fail comes before the making, so that nothing is there when it has failed. The new
  // path waits in `parent`.
  Ref<Chan> parent = TRY(walk.finish());
  char name[kMaxPath];
  const bool slash = parent->path[strlen(parent->path) - 1] != '/';
  const int length = format(name, sizeof name, "%s%s%.*s", parent->path, slash ? "/" : "",
                            static_cast<int>(parts.name.size()), parts.name.data());
  if (static_cast<size_t>(length) >= sizeof name) return Errno::ENAMETOOLONG;
  TRY(chan_set_path(*parent, {name, static_cast<size_t>(length)}));
  FileUseReserve reserve;
  TRY(reserve.fill());
  Ref<Chan> made = TRY(directory->device->create(*directory, parts.name, flags, mode, context.who));
  std::swap(made->path, parent->path);
  made->named_at = parent->named_at.load();
  made->opener = context.who;
  TRY(begin_use(*made, flags, reserve));
  return made;
}

Result<Ref<Chan>> walk_path(const PathContext& context, std::string_view path, Name name) {
  Walk walk(context, name);
  TRY(walk.to(path, Last::kCross));
  return walk.finish();
}

}  // namespace

Result<Ref<Chan>> path_walk(const PathContext& context, std::string_view path) {
  return walk_path(context, path, Name::kAsReached);
}

Result<Ref<Chan>> path_open(const PathContext& context, std::string_view path, uint32_t flags,
                            uint32_t mode) {
  // Between the walk that finds nothing and the making another process may make it, and the other
  // way round.
  for (int attempt = 0;; ++attempt) {
    Result<Ref<Chan>> found = walk_path(context, path, Name::kPresent);
    if (found) {
      if ((flags & ABI_O_CREAT) && (flags & ABI_O_EXCL)) return Errno::EEXIST;
      return open_found(context, found.take(), flags);
    }
    if (found.error() != Errno::ENOENT || !(flags & ABI_O_CREAT)) return found;
    if (path.ends_with('/')) return Errno::EISDIR;
    Result<Ref<Chan>> made = create_at(context, path, flags, (mode & 07777) | ABI_S_IFREG);
    if (made || made.error() != Errno::EEXIST || (flags & ABI_O_EXCL) || attempt > 0) return made;
  }
}

Result<void> path_mkdir(const PathContext& context, std::string_view path, uint32_t mode) {
  Result<Ref<Chan>> found = path_walk(context, path);
  if (found) return Errno::EEXIST;
  if (found.error() != Errno::ENOENT) return found.error();
  TRY(create_at(context, path, ABI_O_RDONLY, (mode & 07777) | ABI_S_IFDIR));
  return {};
}

Result<void> path_remove(const PathContext& context, std::string_view path, bool directory) {
  const Split parts = TRY(split(path));
  Walk walk(context);
  TRY(walk.to(path, Last::kStay));
  if (!walk.found_in()) return Errno::EINVAL;
  Ref<Chan> parent(walk.found_in());
  Ref<Chan> chan = TRY(walk.finish());
  if (directory && !chan->qid.directory) return Errno::ENOTDIR;
  if (!directory && chan->qid.directory) return Errno::EISDIR;
  if (context.ns->member(chan->device, chan->qid.path, 0))
    return fail(Errno::EBUSY, "something is bound there");
  TRY(walk.check(*parent, 3));
  TRY(check_sticky(*parent, *chan, context.who));
  return chan->device->remove(*chan, {*parent, parts.name}, context.who);
}

Result<void> path_rename(const PathContext& context, std::string_view from, std::string_view to) {
  const Split source = TRY(split(from)), target = TRY(split(to));
  Ref<Chan> chan, parent;
  {
    Walk walk(context);
    TRY(walk.to(from, Last::kStay));
    if (!walk.found_in()) return Errno::EINVAL;
    parent = Ref<Chan>(walk.found_in());
    chan = TRY(walk.finish());
    TRY(walk.check(*parent, 3));
  }
  TRY(check_sticky(*parent, *chan, context.who));
  if (context.ns->member(chan->device, chan->qid.path, 0))
    return fail(Errno::EBUSY, "something is bound there");

  Walk walk(context);
  TRY(walk.to(target.directory, Last::kCross));
  if (!walk.at().qid.directory) return Errno::ENOTDIR;
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
  if (directory->device != chan->device) return Errno::EXDEV;
  TRY(chan->device->rename(*chan, {*parent, source.name}, {*directory, target.name}, context.who));
  if (chan->qid.directory) directory_renamed();
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
  if (context.who.uid != 0) return fail(Errno::EPERM, "the name space is shared: only root binds");
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
                "a directory covers a directory, a file covers a file");
  }
  if (order && !what->qid.directory) return fail(Errno::EINVAL, "only directories make unions");
  if (what->device == where->device && what->qid == where->qid && !order)
    return fail(Errno::EINVAL, "it is there already");
  return context.ns->bind(std::move(what), where, flags);
}

Result<void> path_unmount(const PathContext& context, std::string_view target) {
  if (context.who.uid != 0)
    return fail(Errno::EPERM, "the name space is shared: only root unmounts");
  Walk walk(context);
  TRY(walk.to(target, Last::kStay));
  return context.ns->unmount(walk.at());
}
