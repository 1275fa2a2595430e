// The mount table of a namespace.
#pragma once

#include <atomic>

#include "core/spinlock.h"
#include "lib/list.h"
#include "ns/device.h"

// One channel that stands at a place; several make a union.
struct Mount {
  ListNode link;
  Ref<Chan> chan;  // not open
  bool create;     // new files are made here
};

// A place where something is mounted, by the file that is covered. Two channels to it count as the
// same when device and qid path are equal.
struct MountHead {
  ListNode link;
  Ref<Chan> target;  // not open; keeps the qid from being given to another file
  List<Mount, &Mount::link> members;

  bool covers(const Device* device, uint64_t path) const {
    return target->device == device && target->qid.path == path;
  }
};

// The mount table of one or more processes. fork shares it, as a copy is made only on request.
class Namespace : public RefCounted<Namespace> {
 public:
  static constexpr RefKind kRefKind = RefKind::kNamespace;
  static void destroy(Namespace* ns);
  explicit Namespace(Ref<Chan> root) : root_(std::move(root)) {}
  ~Namespace();
  Namespace(const Namespace&) = delete;
  Namespace& operator=(const Namespace&) = delete;

  Chan& root() { return *root_; }
  // What stands at the file (device, path): member `index` of the union there, or nothing after the
  // last. `create` (may be nullptr) gets whether new files are made in it.
  Ref<Chan> member(const Device* device, uint64_t path, size_t index, bool* create = nullptr);
  // A place where `chan` has been bound; nothing if it stands nowhere.
  Ref<Chan> bound_at(const Chan& chan);
  size_t member_count(const Device* device, uint64_t path);
  // Puts `source` at `target`, both not open. `flags`: ABI_BIND_*. ENOMEM. May sleep.
  Result<void> bind(Ref<Chan> source, const Ref<Chan>& target, uint32_t flags);
  // EINVAL if nothing stands there.
  Result<void> unmount(Chan& target);

 private:
  MountHead* find(const Device* device, uint64_t path) REQUIRES(lock_);

  const Ref<Chan> root_;
  std::atomic<size_t> head_count_{0};  // peeked without the lock: most files are not mount points
  Spinlock lock_{LockRank::kNamespace};
  // Under `lock_`.
  List<MountHead, &MountHead::link> heads_ GUARDED_BY(lock_);
};

// The caches of namespaces and mounts. Once, at boot.
void mount_init();
