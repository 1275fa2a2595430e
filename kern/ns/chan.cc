// Channels and devices.
//
// A channel is a position in a device's tree. It consists of the device, a qid and, for some
// devices, a pointer that belongs to the device. The namespace creates channels. open() turns a
// channel into an open file; the caller must have the only reference to the channel. Descriptors
// share open files. Dropping the last reference calls Device::close; after this call the device
// never sees the channel again.
//
// A channel that is not open does not change once it is shared, and is read without a lock. Its
// name is the exception: when a rename has made the name stale, the current name may replace it,
// under one lock for all channels (paths_lock). In an open file these also change: the offset, the
// file status flags, and the fields in which file locks, the page cache and file_use_begin mark the
// file. Calls that use a file's offset exclude each other (OffsetHold) on devices that hold files,
// in memory or on the host. On other devices such calls run concurrently, because a call may wait
// forever.
//
// The list of devices is written at boot only.

#include "ns/chan_impl.h"

#include <algorithm>

#include "core/errstr.h"
#include "core/log.h"
#include "kmalloc.h"
#include "lib/string.h"
#include "ns/file_lock.h"
#include "ns/page_cache.h"

namespace {

constinit ObjectCache<Chan> chan_cache;
constinit Device* devices = nullptr;
constinit uint32_t next_device_id = 1;
constinit Spinlock paths_lock{LockRank::kNamespace};  // guards `path` and `named_at` of Chan

}  // namespace

void chan_init() {
  chan_cache.init("chan");
}

Result<Ref<Chan>> Chan::create(Device* device, Qid qid) {
  Chan* const chan = TRY(chan_cache.make(KM_SLEEP));
  chan->device = device;
  chan->qid = qid;
  return Ref<Chan>::first(chan);
}

Result<Ref<Chan>> Chan::clone() {
  Ref<Chan> copy = TRY(create(device, qid));
  copy->mount_device = mount_device;
  copy->mount_path = mount_path;
  TRY(device->clone_state(*this, *copy));
  return copy;
}

// stack: recursion up to 1 deep, because a channel of a FIFO, of a probe session or of #fd may have
// the last reference to the channel of another file, and that one has none.
void Chan::destroy(Chan* chan) {
  file_use_end(*chan);
  open_file_lock_drop(*chan);
  page_cache_leave(*chan);
  chan->device->close(*chan);
  kfree(chan->path);
  Ref<Chan> next = std::move(chan->union_next);
  chan_cache.destroy(chan);
  // Nobody else has a reference to the other members of an open union. They are destroyed one by
  // one, and not each in the call for the one before it.
  while (next) next = std::move(next->union_next);
}

Result<void> chan_set_path(Chan& chan, std::string_view path) {
  char* copy = nullptr;
  if (!path.empty()) {
    copy = static_cast<char*>(kmalloc_bytes(path.size() + 1, KM_SLEEP));
    if (!copy) return Errno::ENOMEM;
    memcpy(copy, path.data(), path.size());
    copy[path.size()] = '\0';
  }
  kfree(chan.path);
  chan.path = copy;
  return {};
}

size_t chan_copy_path(const Chan& chan, char (&name)[kMaxPath], uint64_t& named_at) {
  const Guard guard(paths_lock);
  named_at = chan.named_at;
  if (!chan.path) return 0;
  const size_t length = strlen(chan.path);
  memcpy(name, chan.path, length);
  return length;
}

void chan_keep_path(Chan& chan, std::string_view path, uint64_t named_at) {
  {
    const Guard guard(paths_lock);
    if (chan.named_at >= named_at) return;
    if (path == chan.path) {
      chan.named_at = named_at;
      return;
    }
  }
  auto* copy = static_cast<char*>(kmalloc_bytes(path.size() + 1, KM_SLEEP));
  if (!copy) return;
  memcpy(copy, path.data(), path.size());
  copy[path.size()] = '\0';
  {
    const Guard guard(paths_lock);
    if (chan.named_at < named_at) {
      std::swap(chan.path, copy);
      chan.named_at = named_at;
    }
  }
  kfree(copy);
}

bool Credentials::is_in(uint32_t group) const {
  return gid == group || std::find(groups, groups + group_count, group) != groups + group_count;
}

Credentials Credentials::real() const {
  Credentials result = *this;
  result.uid = real_uid;
  result.gid = real_gid;
  return result;
}

bool permitted(uint32_t mode, uint32_t uid, uint32_t gid, const Credentials& who, uint32_t want) {
  if (who.uid == 0) return true;
  const uint32_t granted = who.uid == uid ? mode >> 6 : who.is_in(gid) ? mode >> 3 : mode;
  return (granted & want) == want;
}

Result<void> check_attributes(const abi_stat& now, AttributeChange& change,
                              const Credentials& who) {
  const bool is_root = who.uid == 0, is_owner = is_root || who.uid == now.uid;
  const auto sets = [](const std::optional<AttributeChange::Time>& time) {
    return time && !time->now;
  };
  if (!is_owner && (change.mode || change.gid || sets(change.accessed) || sets(change.modified)))
    return fail(Errno::EPERM, "only the owner of a file and root may change this");
  if (change.uid && !is_root && (!is_owner || *change.uid != now.uid))
    return fail(Errno::EPERM, "only root may change the owner of a file");
  if (change.gid && !is_root && *change.gid != now.gid && !who.is_in(*change.gid))
    return fail(Errno::EPERM, "only root may give a file to a group that the caller is not in");
  if ((change.accessed || change.modified) && !is_owner &&
      !permitted(now.mode, now.uid, now.gid, who, 2))
    return Errno::EACCES;
  if (change.mode) {
    *change.mode &= 07777;
    if (!is_root && !who.is_in(now.gid)) *change.mode &= ~uint32_t{ABI_S_ISGID};
  } else if ((change.uid || change.gid) && (now.mode & ABI_S_IFMT) != ABI_S_IFDIR &&
             (now.mode & (ABI_S_ISUID | ABI_S_ISGID))) {
    change.mode = now.mode & 07777 & ~uint32_t{ABI_S_ISUID | ABI_S_ISGID};
  }
  return {};
}

uint32_t wanted_by_open(uint32_t flags) {
  if (flags & kOpenToExecute) return 1;
  const uint32_t access = flags & ABI_O_ACCMODE;
  uint32_t want = 0;
  if (access != ABI_O_WRONLY) want |= 4;
  if (access != ABI_O_RDONLY || (flags & ABI_O_TRUNC)) want |= 2;
  return want;
}

void device_register(Device* device) {
  ASSERT(!device_find(device->name()));
  device->id_ = next_device_id++;
  device->next_ = devices;
  devices = device;
}

Device* device_find(std::string_view name) {
  for (Device* device = devices; device; device = device->next_)
    if (name == device->name_) return device;
  return nullptr;
}

void Device::fill_stat(abi_stat& stat, uint64_t path, uint32_t mode, uint64_t size) const {
  memset(&stat, 0, sizeof stat);
  stat.dev = id_;
  stat.ino = path;
  stat.mode = mode;
  stat.nlink = 1;
  stat.size = size;
  stat.block_size = kPageSize;
  stat.blocks = (size + 511) / 512;
}

Result<Ref<Chan>> Device::attach(std::string_view spec) {
  if (!spec.empty()) return fail(Errno::ENXIO, "#%s takes no argument after its name", name_);
  return Chan::create(this, {.path = 0, .version = 0, .directory = true});
}
Result<Ref<Chan>> Device::create(Chan&, std::string_view, uint32_t, uint32_t, const Credentials&) {
  return fail(Errno::EPERM, "#%s: no files can be made here", name_);
}
Result<void> Device::entry(Chan&, uint64_t&, abi_stat&, char*) {
  return Errno::ENOENT;
}
void Device::close(Chan&) {}
Result<void> Device::clone_state(Chan& chan, Chan& copy) {
  copy.state = chan.state;
  return {};
}
Result<void> Device::remove(Chan&, const DirectoryEntry&, const Credentials&) {
  return fail(Errno::EPERM, "#%s: nothing can be removed here", name_);
}
Result<void> Device::rename(Chan&, const DirectoryEntry&, const DirectoryEntry&,
                            const Credentials&) {
  return fail(Errno::EPERM, "#%s: nothing can be renamed here", name_);
}
Result<void> Device::truncate(Chan&, uint64_t, const Credentials&) {
  return Errno::EINVAL;
}
Result<void> Device::symlink(Chan&, std::string_view, std::string_view, const Credentials&) {
  return fail(Errno::EPERM, "#%s: no links can be made here", name_);
}
Result<size_t> Device::readlink(Chan&, char*) {
  return Errno::EINVAL;
}
Result<void> Device::link(Chan&, const DirectoryEntry&, const Credentials&) {
  return fail(Errno::EPERM, "#%s: no links can be made here", name_);
}
Result<void> Device::set_attributes(Chan&, const AttributeChange&, const Credentials&) {
  return fail(Errno::EPERM, "#%s: owners, permissions and times are fixed here", name_);
}
Result<void> Device::sync(Chan&, bool) {
  return {};
}
Result<void> Device::map(Chan&, bool) {
  return fail(Errno::ENODEV, "#%s: files cannot be mapped", name_);
}
Result<FilePage> Device::page(Chan&, uint64_t) {
  return Errno::ENODEV;
}
void Device::stored(Chan&) {}
Result<void> Device::sync_pages(Chan&, uint64_t, uint64_t, SyncErrors) {
  return {};
}
Result<void> Device::statfs(Chan&, abi_statfs& result) {
  memset(&result, 0, sizeof result);
  result.block_size = kPageSize;
  result.device = id_;
  result.longest_name = kMaxName;
  return {};
}
Result<void> Device::ioctl(Chan&, uint32_t, void*) {
  return Errno::ENOTTY;
}
Result<Ref<Chan>> Device::parent(Chan&, char*) {
  return Errno::ENOTSUP;
}
size_t Device::longest_command(const Chan&) const {
  return 0;
}
uint16_t Device::poll(Chan&, PollWaiter*) {
  return ABI_POLLIN | ABI_POLLOUT;
}
