// Namespaces and their mount tables.
//
// A namespace is a root channel and a list of mount points. A mount point is a file that other
// channels cover. If several channels cover one file, they form a union. A mount point is
// identified by the covered file's device and qid path, not by its path name, so every path to the
// file finds the mount point. After each step, the path walk looks up the file that it has reached.
// If the file is covered, the walk continues with the first channel that is mounted on it. The walk
// also remembers the covered file, because later steps use it to find the other members of the
// union. The channel that the walk returns stores the covered file, too (Chan::mount_device,
// Chan::mount_path). Each step crosses at most one mount, so there are no loops. A mount on the
// root of a device appears at #device and wherever that root is bound.
//
// The table has about ten entries and rarely changes after boot, so a list under a spinlock
// suffices. A set of 64 bits tells without the lock that nothing is mounted on a file. Channels are
// removed from the table under the lock. They are released when the lock is no longer held, because
// closing a channel may sleep.

#include "ns/mount_impl.h"

#include "core/errstr.h"
#include "core/planted.h"
#include "kmalloc.h"
#include "ns/namespace.h"

namespace {

constinit ObjectCache<Namespace> namespace_cache;
constinit ObjectCache<Mount> mount_cache;
constinit ObjectCache<MountHead> head_cache;

// Frees all mounts of a mount point. The caller holds no lock, because freeing a mount may sleep.
void free_members(MountHead& head) {
  while (Mount* mount = head.members.pop_front()) mount_cache.destroy(mount);
}
void free_head(MountHead* head) {
  free_members(*head);
  head_cache.destroy(head);
}

// The file's bit in Namespace::covered_.
uint64_t bit_of(const Device* device, uint64_t path) {
  constexpr uint64_t kMultiplier = 0x9e3779b97f4a7c15;  // Fibonacci hashing (Knuth, volume 3, 6.4)
  return uint64_t{1} << ((path ^ uint64_t{device->id()} << 32) * kMultiplier >> 58);
}

struct HeadDeleter {
  MountHead* head;
  ~HeadDeleter() {
    if (head) free_head(head);
  }
};

}  // namespace

void mount_init() {
  namespace_cache.init("namespace");
  mount_cache.init("mount");
  head_cache.init("mount_head");
}

Result<Ref<Namespace>> namespace_create() {
  Device* const root = device_find("root");
  if (!root) return fail(Errno::ENXIO, "#root: no such device");
  Ref<Chan> chan = TRY(root->attach(""));
  return Ref<Namespace>::first(TRY(namespace_cache.make(KM_SLEEP, std::move(chan))));
}

void Namespace::destroy(Namespace* ns) {
  namespace_cache.destroy(ns);
}

Namespace::~Namespace() {
  while (MountHead* head = heads_.pop_front()) free_head(head);
}

bool Namespace::may_cover(const Device* device, uint64_t path) const {
  return covered_.load(std::memory_order_acquire) & bit_of(device, path);
}

MountHead* Namespace::find(const Device* device, uint64_t path) {
  for (MountHead& head : heads_)
    if (head.covers(device, path)) return &head;
  return nullptr;
}

Ref<Chan> Namespace::member(const Device* device, uint64_t path, size_t index, bool* create) {
  if (!may_cover(device, path)) return {};
  Guard guard(lock_);
  MountHead* const head = find(device, path);
  if (!head) return {};
  for (Mount& mount : head->members) {
    if (index-- > 0) continue;
    if (create) *create = mount.create;
    return mount.chan;
  }
  return {};
}

Ref<Chan> Namespace::bound_at(const Chan& chan) {
  Guard guard(lock_);
  for (MountHead& head : heads_) {
    // Skips a union that is mounted on `chan` and has `chan` itself as a member.
    if (head.covers(chan.device, chan.qid.path)) continue;
    for (Mount& mount : head.members)
      if (mount.chan->device == chan.device && mount.chan->qid == chan.qid) return head.target;
  }
  return {};
}

size_t Namespace::member_count(const Device* device, uint64_t path) {
  if (!may_cover(device, path)) return 0;
  Guard guard(lock_);
  MountHead* const head = find(device, path);
  if (!head) return 0;
  size_t count = 0;
  for ([[maybe_unused]] Mount& mount : head->members) ++count;
  return count;
}

Result<void> Namespace::bind(Ref<Chan> source, const Ref<Chan>& target, uint32_t flags) {
  const bool before = flags & ABI_BIND_BEFORE, after = flags & ABI_BIND_AFTER,
             make_union = before || after;
  // Everything that may be needed is allocated before the table is changed; leftovers are freed at
  // the end.
  HeadDeleter spare{TRY(head_cache.make(KM_SLEEP))};
  spare.head->target = target;
  Mount* const added = TRY(mount_cache.make(KM_SLEEP));
  added->chan = std::move(source);
  added->create = flags & ABI_BIND_CREATE;
  spare.head->members.push_back(*added);
  Mount* covered = nullptr;  // the target itself, as a member of the union that is mounted on it
  if (make_union) {
    Result<Mount*> made = mount_cache.make(KM_SLEEP);
    if (!made && planted(Planted::kBindError)) static_cast<void>(Ref<Chan>(target).release());
    covered = TRY(std::move(made));
    covered->chan = target;
    covered->create = false;
    spare.head->members.push_back(*covered);
  }

  Guard guard(lock_);
  MountHead* head = find(target->device, target->qid.path);
  if (!head) {
    if (covered && after) {
      covered->link.unlink();
      spare.head->members.push_front(*covered);
    }
    heads_.push_back(*std::exchange(spare.head, nullptr));
    covered_.fetch_or(bit_of(target->device, target->qid.path), std::memory_order_release);
    return {};
  }
  if (!make_union) {
    head->link.unlink();
    heads_.push_back(*std::exchange(spare.head, head));
    return {};
  }
  added->link.unlink();
  if (before)
    head->members.push_front(*added);
  else
    head->members.push_back(*added);
  if (planted(Planted::kBindSpare)) spare.head = nullptr;
  return {};
}

Result<void> Namespace::unmount(Chan& target) {
  HeadDeleter removed{nullptr};
  Guard guard(lock_);
  MountHead* const head = find(target.device, target.qid.path);
  if (!head) return fail(Errno::EINVAL, "nothing is bound there");
  head->link.unlink();
  removed.head = head;
  uint64_t covered = 0;
  for (MountHead& other : heads_) covered |= bit_of(other.target->device, other.target->qid.path);
  covered_.store(covered, std::memory_order_release);
  return {};
}
