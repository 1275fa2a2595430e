// Path walk.
//
// A walk starts at the root of the namespace (/…), at the root of a device (#name/…) or at the
// current directory, and takes one step for each name. In a union, a step searches the members in
// order. If something is mounted on the file that the step has reached, the walk continues in the
// mounted channel. The canonical name is built during the walk and becomes the name of the returned
// channel. `.` has no effect. `..` removes the last name from the canonical name and walks the
// result from its start. So `..` leaves a mounted tree on the path by which the walk entered, and
// devices need not know the parent of a file. At `/` and at #name, `..` has no effect.
//
// A name goes stale when a directory in it is renamed. `..` first updates a stale canonical name
// (present_name). If the caller asks for a current name (Name::kPresent), the start of the walk
// updates a stale name of the current directory. An updated name of the current directory is also
// stored in its channel.
//
// A step to a symbolic link is undone: the walk is again in the directory, or in the union, that
// has the link. The link's target is put before the rest of the path, and the walk continues with
// this new path. If the target begins with `/`, the walk starts again at the root of the process's
// namespace; if it begins with `#name`, at the root of this device. These rules also hold for links
// among the host's files. Canonical names contain no links. A walk follows at most 40 links.
//
// The process needs search permission in every directory through which its walk leads. In a union,
// a step skips the members that the process may not search. If no other member has the name, the
// step fails with EACCES.
//
// Nothing is locked during a walk. A Ref holds each channel that the walk uses, so the channel is
// released even if the walk fails. The channel of the current directory and mounted channels are
// shared, and are not copied during the walk. finish() copies such a channel if it is the result,
// since a result gets its own name.

#include "ns/walk_impl.h"

#include <algorithm>

#include "core/errstr.h"
#include "core/planted.h"
#include "kmalloc.h"
#include "lib/string.h"

namespace {

constexpr unsigned kMostLinks = 40;

bool is_rest_empty(std::string_view rest) {
  return rest.find_first_not_of('/') == std::string_view::npos;
}

}  // namespace

Result<Split> split(std::string_view path) {
  while (path.size() > 1 && path.back() == '/') path.remove_suffix(1);
  if (path.empty()) return Errno::ENOENT;
  const size_t slash = path.rfind('/');
  Split parts;
  if (slash == std::string_view::npos) {
    if (path.front() == '#') return fail(Errno::EPERM, "the root of a device cannot be changed");
    parts = {".", path};
  } else {
    parts = {path.substr(0, slash == 0 ? 1 : slash), path.substr(slash + 1)};
  }
  if (parts.name.empty() || parts.name == "." || parts.name == "..") return Errno::EINVAL;
  if (parts.name.size() > kMaxName) return Errno::ENAMETOOLONG;
  return parts;
}

Result<void> Walk::to(std::string_view path, Last last, Links links) {
  if (path.empty()) return Errno::ENOENT;
  if (path.size() >= kMaxPath) return Errno::ENAMETOOLONG;
  TRY(start(path));
  return steps(path, last, links);
}

Result<void> Walk::to_new(std::string_view path, Links links, std::string_view& name) {
  if (path.size() >= kMaxPath) return Errno::ENAMETOOLONG;
  bool goes_on = false;  // a link was followed: continue from its directory
  for (;;) {
    const Split parts = TRY(split(path));
    TRY(names_.fill());
    memcpy(names_.name(), parts.name.data(), parts.name.size());
    name = {names_.name(), parts.name.size()};
    std::string_view directory = parts.directory;
    if (!goes_on || directory.front() == '/' || directory.front() == '#') TRY(start(directory));
    TRY(steps(directory, Last::kCross, Links::kFollow));
    if (!at_->qid.directory) return Errno::ENOTDIR;
    if (links != Links::kFollow) return {};
    Ref<Chan> found_in;
    Result<Ref<Chan>> found = lookup(name, found_in);
    if (!found) return found.error() == Errno::ENOENT ? Result<void>() : found.error();
    if (!(*found)->qid.symlink) return Errno::EEXIST;
    TRY(read_link(**found, {}, path));
    if (path.ends_with('/')) return Errno::EISDIR;
    goes_on = true;
  }
}

Result<Ref<Chan>> Walk::finish() {
  Ref<Chan> result = at_.is_shared ? TRY(at_->clone()) : std::move(at_.chan);
  result->mount_device = at_.mount_device;
  result->mount_path = at_.mount_path;
  TRY(chan_set_path(*result, {names_.path(), length_}));
  result->named_at = named_at_;
  return result;
}

Result<Ref<Chan>> Walk::lookup(std::string_view name, Ref<Chan>& found_in) {
  if (name.size() > kMaxName) return Errno::ENAMETOOLONG;
  Chan& directory = *at_.chan;
  if (!directory.qid.directory) return Errno::ENOTDIR;
  Namespace& ns = *context_.ns;
  if (!at_.mount_device || ns.member_count(at_.mount_device, at_.mount_path) <= 1) {
    TRY(check(directory, 1));
    found_in = at_.chan;
    return directory.device->walk(directory, name, context_.who);
  }
  Errno missing = Errno::ENOENT;
  for (size_t i = 0;; ++i) {
    Ref<Chan> member = ns.member(at_.mount_device, at_.mount_path, i);
    if (!member) return missing;
    if (const Result<void> checked = check(*member, 1); !checked) {
      missing = checked.error();  // the member may have the name
      if (missing == Errno::EACCES) continue;
      return missing;
    }
    Result<Ref<Chan>> next = member->device->walk(*member, name, context_.who);
    if (!next && next.error() == Errno::ENOENT) continue;
    found_in = std::move(member);
    return next;
  }
}

Result<Ref<Chan>> Walk::creation_member() {
  Namespace& ns = *context_.ns;
  if (!at_.mount_device || ns.member_count(at_.mount_device, at_.mount_path) <= 1)
    return Ref<Chan>(at_.chan);
  bool create = false;
  for (size_t i = 0;; ++i) {
    Ref<Chan> member = ns.member(at_.mount_device, at_.mount_path, i, &create);
    if (!member) return fail(Errno::EPERM, "no directory of this union accepts new files");
    if (create) return member;
  }
}

Result<void> Walk::check(Chan& chan, uint32_t want) {
  if (context_.who.uid == 0) return {};
  abi_stat stat;
  TRY(chan.device->stat(chan, stat));
  if (!permitted(stat.mode, stat.uid, stat.gid, context_.who, want)) return Errno::EACCES;
  return {};
}

Result<void> Walk::start(std::string_view& path) {
  TRY(names_.fill());
  if (path.front() == '#') return start_device(path);
  if (path.front() == '/' || !context_.cwd || !context_.cwd->path) return start_root();
  Chan& cwd = *context_.cwd;
  at_ = Reached::shared(cwd);
  length_ = chan_copy_path(cwd, names_.path(), named_at_);
  if (name_kind_ == Name::kPresent) static_cast<void>(mend_name());
  return {};
}

Result<void> Walk::start_root() {
  at_ = Reached::shared(context_.ns->root());
  cross();
  return set_name("/");
}

Result<void> Walk::start_device(std::string_view& path) {
  const std::string_view whole = path.substr(0, std::min(path.find('/'), path.size()));
  const std::string_view name = whole.substr(1, std::min(whole.find('.'), whole.size()) - 1);
  const std::string_view spec =
      whole.size() > name.size() + 1 ? whole.substr(name.size() + 2) : std::string_view{};
  Device* const device = device_find(name);
  if (!device)
    return fail(Errno::ENXIO, "#%.*s: no such device", static_cast<int>(name.size()), name.data());
  at_ = {.chan = TRY(device->attach(spec))};
  cross();
  TRY(set_name(whole));
  path.remove_prefix(whole.size());
  return {};
}

// Updates the name so that it leads to at_. The name of a removed file stays unchanged.
// stack: no recursion, because the walk of present_name() never looks for a present name.
Result<void> Walk::mend_name() {
  const uint64_t renames = directory_renames();
  if (named_at_ == renames) return {};
  const Result<void> mended =
      present_name(*context_.ns, *at_.chan, named_at_, names_.path(), length_);
  if (!mended) return mended.error() == Errno::ENOENT ? Result<void>() : mended;
  named_at_ = renames;
  if (at_.chan == context_.cwd) chan_keep_path(*at_.chan, {names_.path(), length_}, named_at_);
  return {};
}

Result<void> Walk::set_name(std::string_view name) {
  if (name.size() >= kMaxPath) return Errno::ENAMETOOLONG;
  memcpy(names_.path(), name.data(), name.size());
  length_ = name.size();
  return {};
}

Result<void> Walk::steps(std::string_view path, Last last, Links links) {
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
    const bool is_last = is_rest_empty(path);
    const Last here = is_last ? last : Last::kCross;
    if (name == ".") {
      found_in_.reset();
      must_be_directory = true;
    } else if (name == "..") {
      if (!at_->qid.directory) return Errno::ENOTDIR;
      if (links == Links::kNone) return Errno::ENOENT;
      TRY(to_parent(here));
    } else {
      Reached before;
      const size_t length = length_;
      TRY(step(name, here, before));
      if (!at_->qid.symlink || links == Links::kNone || (is_last && links == Links::kNotLast))
        continue;
      const Reached link = std::exchange(at_, std::move(before));
      length_ = length;
      TRY(read_link(*link.chan, path, path));
      if (path.front() == '/' || path.front() == '#') TRY(start(path));
    }
  }
  if (must_be_directory && !at_->qid.directory) return Errno::ENOTDIR;
  return {};
}

Result<void> Walk::step(std::string_view name, Last last, Reached& before) {
  Ref<Chan> found_in;
  Result<Ref<Chan>> found = lookup(name, found_in);
  if (!found && planted(Planted::kWalkError)) static_cast<void>(Ref<Chan>(at_.chan).release());
  before = std::exchange(at_, {.chan = TRY(std::move(found))});
  found_in_ = std::move(found_in);
  char(&path)[kMaxPath] = names_.path();
  const bool slash = length_ > 0 && path[length_ - 1] != '/';
  if (length_ + slash + name.size() >= kMaxPath) return Errno::ENAMETOOLONG;
  if (slash) path[length_++] = '/';
  memcpy(path + length_, name.data(), name.size());
  length_ += name.size();
  if (last == Last::kCross) cross();
  return {};
}

// `rest` may lie in the old link_text_, so the old text is freed after `rest` is copied.
Result<void> Walk::read_link(Chan& link, std::string_view rest, std::string_view& path) {
  if (++links_followed_ > kMostLinks)
    return fail(Errno::ELOOP, "more than %u symbolic links on the way", kMostLinks);
  char* const text = static_cast<char*>(kmalloc_bytes(kMaxPath, KM_SLEEP));
  if (!text) return Errno::ENOMEM;
  size_t size = 0;
  Result<size_t> target = link.device->readlink(link, text);
  if (target) size = *target;
  const bool fits = size + rest.size() < kMaxPath;
  if (fits && !rest.empty()) memcpy(text + size, rest.data(), rest.size());
  kfree(std::exchange(link_text_, text));
  if (!target) return target.error();
  if (size == 0) return Errno::ENOENT;
  if (!fits) return Errno::ENAMETOOLONG;
  path = {text, size + rest.size()};
  return {};
}

// Walks the canonical name without its last name. Neither this walk nor the one of present_name()
// takes a `..` (Links::kNone), so neither calls this function again.
// stack: no recursion, because a walk with Links::kNone, as below, does not take `..`.
Result<void> Walk::to_parent(Last last) {
  found_in_.reset();
  TRY(mend_name());
  const char* const own = names_.path();
  size_t end = length_;
  while (end > 0 && own[end - 1] != '/') --end;
  if (end == 0) return {};  // the name is #NAME: the root of a device
  while (end > 1 && own[end - 1] == '/') --end;
  PathBuffer parent;
  TRY(parent.fill());
  memcpy(parent.path(), own, end);
  std::string_view path(parent.path(), end);
  TRY(start(path));
  TRY(steps(path, last, Links::kNone));
  found_in_.reset();
  return {};
}

// If something is mounted on the file that the walk has reached, moves to the mounted channel.
void Walk::cross() {
  Ref<Chan> mounted = context_.ns->member(at_->device, at_->qid.path, 0);
  if (!mounted) return;
  at_ = {std::move(mounted), at_->device, at_->qid.path, true};
}
