// Finds the current name of a channel.
//
// A channel has the name by which it was reached. The name goes stale when a directory above it is
// renamed: it then leads nowhere, or to another file. Renames of directories are counted, and a
// channel stores with its name the count at which the name was valid (Chan::named_at). So one
// comparison usually shows that the name is valid. Otherwise the name is walked, and the file that
// the walk reaches is compared with the channel's file. The walk has root's rights, since only the
// outcome of the comparison is revealed. A valid name has no links and no `..`, so this walk
// follows none (Links::kNone). It therefore never looks for a present name itself: the recursion
// from a walk to present_name and back to a walk ends at the second walk. If the files differ, the
// device gives the current name of the file and of each directory above it (Device::parent). The
// channel's name then consists of a beginning and these names. The beginning is the path of the
// directory on which the device's root is mounted, or #NAME (NAME: the device's name). #NAME is
// tried first if the channel was reached by a name that begins with `#`.
//
// For #p9, the files of the host, only the names of directories can be updated: no call of 9P
// returns the directory of any other file. The 9P server decides how many directories lie above a
// directory. So each step upwards checks whether the process is ending.
//
// No lock is held during the search: a returned name was valid at some moment of the call, and may
// be stale when the caller uses it.
#include <atomic>

#include "ns/chan_impl.h"
#include "ns/mount_impl.h"
#include "proc/process.h"

#include "core/planted.h"
#include "kmalloc.h"
#include "lib/format.h"
#include "lib/string.h"

namespace {

constinit std::atomic<uint64_t> renames{0};

bool leads_to(Namespace& ns, std::string_view name, const Chan& chan) {
  const Links links = planted(Planted::kStaleWalk) ? Links::kFollow : Links::kNone;
  Result<Ref<Chan>> found = path_walk({.ns = &ns, .cwd = {}, .who = {}}, name, links);
  return found && (*found)->device == chan.device && (*found)->qid == chan.qid;
}

// The names from the device's root down to a channel, each after a slash.
class NamesBelow {
 public:
  // Collects the names, and sets `root` to the device's root. ENOENT, ENOTSUP, ENAMETOOLONG, EINTR.
  Result<void> of(Chan& chan, Ref<Chan>& root) {
    root = Ref<Chan>(&chan);
    for (;;) {
      if (process_is_ending()) return Errno::EINTR;
      char name[kMaxName + 1];
      Ref<Chan> parent = TRY(root->device->parent(*root, name));
      if (!parent) return {};
      const size_t length = strlen(name);
      if (length + 1 > start_) return Errno::ENAMETOOLONG;
      start_ -= length;
      memcpy(names_ + start_, name, length);
      names_[--start_] = '/';
      root = std::move(parent);
    }
  }
  std::string_view view() const { return {names_ + start_, sizeof names_ - start_}; }

 private:
  char names_[kMaxPath];
  size_t start_ = sizeof names_;
};

// Memory of present_name().
struct NameSearch {
  NamesBelow below;
  char now[kMaxPath];
};

}  // namespace

uint64_t directory_renames() {
  return renames.load(std::memory_order_acquire);
}
void directory_renamed() {
  renames.fetch_add(1, std::memory_order_release);
}

Result<void> present_name(Namespace& ns, Chan& chan, uint64_t named_at, char* name,
                          size_t& length) {
  if (named_at == directory_renames() || leads_to(ns, {name, length}, chan)) return {};
  const Scratch<NameSearch> search = TRY(Scratch<NameSearch>::make());
  NamesBelow& below = search->below;
  char(&now)[kMaxPath] = search->now;
  Ref<Chan> root;
  if (Result<void> found = below.of(chan, root); !found)
    return found.error() == Errno::ENOTSUP ? Result<void>() : found;
  bool is_too_long = false;
  const auto try_from = [&](const char* hash, const char* start) {
    const int size = format(now, sizeof now, "%s%s%.*s", hash, start,
                            static_cast<int>(below.view().size()), below.view().data());
    const std::string_view view(now, static_cast<size_t>(size));
    if (view.size() >= sizeof now) {
      is_too_long = true;
      return false;
    }
    if (!leads_to(ns, view, chan)) return false;
    memcpy(name, now, length = view.size());
    return true;
  };
  const bool came_by_device = name[0] == '#';
  if (came_by_device && try_from("#", chan.device->name())) return {};
  const Ref<Chan> bound_at = ns.bound_at(*root);
  const char* const start = bound_at ? bound_at->path : nullptr;
  if (start && try_from("", strcmp(start, "/") == 0 && !below.view().empty() ? "" : start))
    return {};
  if (!came_by_device && try_from("#", chan.device->name())) return {};
  return is_too_long ? Errno::ENAMETOOLONG : Errno::ENOENT;
}

Result<size_t> chan_present_name(Namespace& ns, Chan& chan, char (&name)[kMaxPath]) {
  uint64_t named_at;
  size_t length = chan_copy_path(chan, name, named_at);
  if (length == 0) return Errno::ENOENT;
  const uint64_t renames_before = directory_renames();
  TRY(present_name(ns, chan, named_at, name, length));
  if (named_at != renames_before) chan_keep_path(chan, {name, length}, renames_before);
  name[length] = '\0';
  return length;
}
