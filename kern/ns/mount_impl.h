// The mount table of a namespace.
#pragma once

#include <atomic>

#include "core/spinlock.h"
#include "lib/list.h"
#include "ns/device.h"

// A channel that is mounted on a file. If several channels are mounted on one file, they form a
// union.
struct Mount {
  ListNode link;
  Ref<Chan> chan;  // not open
  bool create;     // new files of the union are made in the first member with `create`
};

// A mount point: a file on which channels are mounted. Channels with equal device and qid path
// refer to the same mount point.
struct MountHead {
  ListNode link;
  Ref<Chan> target;  // not open; prevents the reuse of the qid for another file
  List<Mount, &Mount::link> members;

  bool covers(const Device* device, uint64_t path) const {
    return target->device == device && target->qid.path == path;
  }
};

// The most members of a union. Binds that run at once may exceed it by their number.
inline constexpr size_t kMostMembers = 16;

// The mount table of one or more processes: a child shares the table of its parent.
class Namespace : public RefCounted<Namespace> {
 public:
  static constexpr RefKind kRefKind = RefKind::kNamespace;
  static void destroy(Namespace* ns);
  explicit Namespace(Ref<Chan> root) : root_(std::move(root)) {}
  ~Namespace();
  Namespace(const Namespace&) = delete;
  Namespace& operator=(const Namespace&) = delete;

  Chan& root() { return *root_; }
  // Returns member `index` of the union mounted on the file (device, path), or an empty reference
  // after the last member. If `create` is not nullptr, sets *create to the member's Mount::create.
  Ref<Chan> member(const Device* device, uint64_t path, size_t index, bool* create = nullptr);
  // Returns a mount point on which `chan` is mounted; an empty reference if there is none.
  Ref<Chan> bound_at(const Chan& chan);
  size_t member_count(const Device* device, uint64_t path);
  // Mounts `source` on `target`. Neither channel is open. `flags`: ABI_BIND_*. ENOMEM. May sleep.
  Result<void> bind(Ref<Chan> source, const Ref<Chan>& target, uint32_t flags);
  // Undoes all mounts on the file of `target`. EINVAL if nothing is mounted there.
  Result<void> unmount(Chan& target);

 private:
  // False if nothing is mounted on the file. True: something may be.
  bool may_cover(const Device* device, uint64_t path) const;
  MountHead* find(const Device* device, uint64_t path) REQUIRES(lock_);

  const Ref<Chan> root_;
  // For each mount point, the bit of its file's hash. Read without the lock, because nothing is
  // mounted on most files of a walk. Written under `lock_`.
  std::atomic<uint64_t> covered_{0};
  Spinlock lock_{LockRank::kNamespace};
  // Under `lock_`.
  List<MountHead, &MountHead::link> heads_ GUARDED_BY(lock_);
};

// Makes the caches of namespaces and mounts. Called once, at boot.
void mount_init();
