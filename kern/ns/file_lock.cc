// Locks on files.
//
// A file has an entry (LockedFile) in a hash table while it has a lock or a waiter for a lock. The
// key is the device and the qid path. So all opens of a file find the same entry, under any name;
// this holds on #p9, too. There are two types of locks, which do not affect each other, as in
// Linux:
// - A record lock (fcntl) belongs to a process; the process's descriptor table identifies the
//   owner.
// - An open-file lock (flock) belongs to an open file.
//
// Record locks of one owner on a file do not overlap, and adjacent ones differ in kind (shared or
// exclusive). Setting a lock on a range cuts the owner's locks of the other kind that overlap the
// range, and joins the new lock with adjacent locks of the same kind. This needs memory for the new
// lock. It also needs memory for the tail of a lock that is cut in two. A call first reuses the
// locks that it removes, so unlocking a whole lock allocates nothing. Any further memory is
// allocated before anything changes.
//
// As POSIX requires, a process loses its record locks on a file when it closes any descriptor of
// the file, and all its record locks when it ends. A child process starts without locks; exec keeps
// them. A flag in the descriptor table says that the process may have locks. If the flag is not
// set, close does not search for locks. close first takes the descriptor out of the table, then
// drops the locks under locks_mutex. A call that sets a lock through a descriptor looks for the
// descriptor under the same mutex, just before it sets the lock. So no lock is set for a descriptor
// that another thread has closed, and no lock outlives its process.
//
// One sleeping lock (locks_mutex) guards everything. A waiter has a Wait on its stack. The wait is
// in the list of the first lock that blocks it, and in a hash table by its owner. If this lock
// changes or goes, the waiter tries again; changes of other locks do not wake it. Before a waiter
// for a record lock sleeps, it searches for a deadlock. The search visits the waits of the owner of
// the lock that blocks the waiter, then the waits of the owners that block these waits, and so on.
// If it reaches the waiter's own owner, the result is EDEADLK. A wait that several locks block
// counts only with the first one. So a circle over another of these locks is found when the first
// one goes, because then the waiter searches again.
//
// Bounds: the number of locks of each user has a limit (proc/user_account.h). A call visits each
// lock of its file a few times, and the search for a deadlock visits each wait at most once. So
// locks_mutex is never held for long, and a waiter that is killed soon gets it. The search
// allocates nothing, so it cannot fail.
//
// Lock order: `locks_mutex`, then `wake_lock`.

#include "ns/file_lock.h"

#include <algorithm>
#include <utility>

#include "core/errstr.h"
#include "core/planted.h"
#include "core/sleep.h"
#include "kmalloc.h"
#include "lib/list.h"
#include "ns/namespace.h"
#include "proc/user_account.h"

namespace {

struct Lock;

// A waiter for a lock.
struct Wait {
  const void* owner = nullptr;
  bool is_record = false;
  LockKind kind = LockKind::kNone;
  ByteRange range;
  const LockDescriptor* descriptor = nullptr;  // must be open when the lock is set; nullptr: none

  // While the waiter is blocked:
  const Lock* blocker = nullptr;
  ListNode blocker_link;       // in the list of `blocker`
  ListNode owner_link;         // in `waits`
  uint64_t search = 0;         // the last search for a deadlock that has visited this wait
  Wait* next_found = nullptr;  // list of this search

  // Guarded by wake_lock.
  bool woken = false;
  WaitQueue queue;
};

struct Lock {
  ListNode link;
  List<Wait, &Wait::blocker_link> blocked;
  LockOwner owner;
  LockKind kind = LockKind::kNone;
  bool is_record = false;
  ByteRange range;
  Charge charge;
};

struct LockedFile {
  ListNode link;
  const Device* device = nullptr;
  uint64_t path = 0;
  List<Lock, &Lock::link> locks;
};

constexpr size_t kBuckets = 64;

constinit ObjectCache<Lock> lock_cache;
constinit ObjectCache<LockedFile> file_cache;
constinit Mutex locks_mutex{LockRank::kDeviceMutex};
constinit List<LockedFile, &LockedFile::link> files[kBuckets] GUARDED_BY(locks_mutex);
using Waits = List<Wait, &Wait::owner_link>;
constinit Waits waits[kBuckets] GUARDED_BY(locks_mutex);
constinit uint64_t searches GUARDED_BY(locks_mutex) = 0;  // number of searches for a deadlock
constinit Spinlock wake_lock{LockRank::kDevice};

size_t bucket_of(const Chan& chan) {
  return (chan.qid.path ^ chan.device->id()) % kBuckets;
}

LockedFile* find_file(const Chan& chan) REQUIRES(locks_mutex) {
  for (LockedFile& file : files[bucket_of(chan)])
    if (file.device == chan.device && file.path == chan.qid.path) return &file;
  return nullptr;
}

void forget_if_idle(LockedFile* file) REQUIRES(locks_mutex) {
  if (!file->locks.empty()) return;
  file->link.unlink();
  file_cache.destroy(file);
}

bool excludes(LockKind a, LockKind b) {
  return a == LockKind::kExclusive || b == LockKind::kExclusive;
}

// Finds the next lock of the file, after `last`, that conflicts with the lock described by the
// other parameters. `last` nullptr: finds the first such lock.
Lock* next_in_the_way(LockedFile& file, Lock* last, bool is_record, const void* owner,
                      LockKind kind, const ByteRange& range) {
  for (Lock* lock = last ? file.locks.next(*last) : file.locks.front(); lock;
       lock = file.locks.next(*lock)) {
    if (lock->is_record == is_record && lock->owner.owner != owner && excludes(lock->kind, kind) &&
        lock->range.overlaps(range))
      return lock;
  }
  return nullptr;
}

Waits& waits_of(const void* owner) REQUIRES(locks_mutex) {
  constexpr uint64_t kMultiplier = 0x9e3779b97f4a7c15;  // Fibonacci hashing (Knuth, volume 3, 6.4)
  return waits[(reinterpret_cast<uint64_t>(owner) * kMultiplier >> 32) % kBuckets];
}

// True if `wait` would close a circle if it waited for `blocker`: the owner of `blocker` waits,
// directly or through other owners, for the owner of `wait`.
bool would_deadlock(const Wait& wait, const Lock& blocker) REQUIRES(locks_mutex) {
  const uint64_t search = ++searches;
  Wait* found = nullptr;  // waits whose blockers are still to be visited
  const void* owner = blocker.owner.owner;
  for (;;) {
    for (Wait& other : waits_of(owner)) {
      if (other.owner != owner || other.search == search) continue;
      if (other.blocker->owner.owner == wait.owner) return true;
      other.search = search;
      other.next_found = found;
      found = &other;
    }
    if (!found) return false;
    owner = found->blocker->owner.owner;
    found = found->next_found;
  }
}

void wait_for(Wait& wait, Lock& blocker) REQUIRES(locks_mutex) {
  wait.blocker = &blocker;
  wait.woken = false;  // no other task can reach the wait yet
  blocker.blocked.push_back(wait);
  waits_of(wait.owner).push_back(wait);
}

void stop_waiting(Wait& wait) REQUIRES(locks_mutex) {
  wait.blocker_link.unlink();
  wait.owner_link.unlink();
}

// Wakes all waiters that `lock` blocks. Called when the lock changes or goes.
void wake_blocked(Lock& lock) REQUIRES(locks_mutex) {
  const Guard guard(wake_lock);
  while (Wait* const wait = lock.blocked.front()) {
    stop_waiting(*wait);
    wait->woken = true;
    wait->queue.wake_one();
  }
}

// Memory for setting a lock: the file's entry, and up to two locks, for the new lock and for the
// tail of a lock that is cut in two.
struct Wanted {
  bool file = false;
  unsigned locks = 0;
};

// Owns the allocated memory for setting a lock, until that memory is used.
class Spares {
 public:
  Spares() = default;
  Spares(const Spares&) = delete;
  Spares& operator=(const Spares&) = delete;
  ~Spares() {
    for (Lock* lock : locks_)
      if (lock) lock_cache.destroy(lock);
    if (file_) file_cache.destroy(file_);
  }
  bool has(const Wanted& wanted) const {
    return (file_ || !wanted.file) &&
           unsigned{locks_[0] != nullptr} + unsigned{locks_[1] != nullptr} >= wanted.locks;
  }
  // Allocates the wanted memory. Fails with ENOLCK.
  Result<void> fill(const Wanted& wanted) {
    if (wanted.file && !file_) file_ = TRY(made(file_cache.make(KM_SLEEP)));
    for (unsigned i = 0; i < wanted.locks; ++i) {
      if (locks_[i]) continue;
      Charge charge = TRY(charge_current(Charged::kLock));
      locks_[i] = TRY(made(lock_cache.make(KM_SLEEP)));
      locks_[i]->charge = std::move(charge);
    }
    return {};
  }
  Lock& lock() { return *std::exchange(locks_[locks_[0] ? 0 : 1], nullptr); }
  LockedFile& file() { return *std::exchange(file_, nullptr); }
  // Takes over a lock that is in no list: stores it for reuse, or frees it if there is no room.
  void keep(Lock& lock) {
    for (Lock*& place : locks_) {
      if (place) continue;
      place = &lock;
      return;
    }
    lock_cache.destroy(&lock);
  }

 private:
  template <typename T>
  static Result<T*> made(Result<T*> result) {
    if (!result) return fail(Errno::ENOLCK, "no memory for a lock");
    return *result;
  }
  LockedFile* file_ = nullptr;
  Lock* locks_[2] = {};
};

Lock& taken_out(Lock& lock) REQUIRES(locks_mutex) {
  if (!lock.blocked.empty()) wake_blocked(lock);
  lock.link.unlink();
  return lock;
}

// Returns the memory that set_range will need. If set_range cuts a lock in two, no other lock of
// the owner overlaps the range. So at most one lock is cut, and one extra lock is enough.
Wanted wanted_by(LockedFile* file, const Wait& wait) {
  const bool asks = wait.kind != LockKind::kNone;
  if (!file) return {.file = asks, .locks = asks};
  unsigned given_back = 0, cut = 0;
  for (const Lock& lock : file->locks) {
    if (lock.is_record != wait.is_record || lock.owner.owner != wait.owner) continue;
    const ByteRange& old = lock.range;
    if (lock.kind == wait.kind) {
      given_back += old.touches(wait.range);
    } else if (old.overlaps(wait.range)) {
      const bool before = old.first<wait.range.first, after = old.last> wait.range.last;
      cut += before && after;
      given_back += !before && !after;
    }
  }
  const unsigned needed = asks + cut;
  return {.locks = needed - std::min(needed, given_back)};
}

// Sets the owner's locks on the range to `kind`; kNone unlocks the range. The caller has checked
// that no other owner's lock conflicts.
void set_range(LockedFile& file, bool is_record, const LockOwner& owner, LockKind kind,
               ByteRange range, Spares& spares) REQUIRES(locks_mutex) {
  for (Lock& lock : file.locks) {
    if (lock.is_record != is_record || lock.owner.owner != owner.owner) continue;
    ByteRange& old = lock.range;
    if (lock.kind == kind) {
      if (!old.touches(range)) continue;
      range = {std::min(old.first, range.first), std::max(old.last, range.last)};
      spares.keep(taken_out(lock));
    } else if (old.overlaps(range)) {
      const bool before = old.first<range.first, after = old.last> range.last;
      if (!lock.blocked.empty()) wake_blocked(lock);
      if (before && after) {
        Lock& rest = spares.lock();
        rest.owner = lock.owner;
        rest.kind = lock.kind;
        rest.is_record = is_record;
        rest.range = {range.last + 1, old.last};
        file.locks.push_front(rest);
      }
      if (before)
        old.last = range.first - 1;
      else if (after)
        old.first = range.last + 1;
      else
        spares.keep(taken_out(lock));
    }
  }
  if (kind == LockKind::kNone) return;
  Lock& lock = spares.lock();
  lock.owner = owner;
  lock.kind = kind;
  lock.is_record = is_record;
  lock.range = range;
  file.locks.push_front(lock);
}

// Removes the owner's record locks on the file; with `is_record` false, its open-file locks.
void drop(LockedFile& file, bool is_record, const void* owner) REQUIRES(locks_mutex) {
  for (Lock& lock : file.locks) {
    if (lock.is_record != is_record || lock.owner.owner != owner) continue;
    lock_cache.destroy(&taken_out(lock));
  }
}

void drop_all(const Chan& chan, bool is_record, const void* owner) {
  const MutexGuard guard(locks_mutex);
  LockedFile* const file = find_file(chan);
  if (!file) return;
  drop(*file, is_record, owner);
  forget_if_idle(file);
}

// Outcome of try_set. kSet: the lock is set. kWaits: `wait` is blocked by a lock, and the caller
// must sleep. kWants: the caller must allocate the memory in `wanted` and try again.
enum class Tried { kSet, kWaits, kWants };

Result<Tried> try_set(const Chan& chan, const LockOwner& owner, Wait& wait, LockWait may_wait,
                      Spares& spares, Wanted& wanted) REQUIRES(locks_mutex) {
  LockedFile* file = find_file(chan);
  if (!file && wait.kind == LockKind::kNone) return Tried::kSet;
  const bool asks = wait.kind != LockKind::kNone;
  if (asks && wait.descriptor && !planted(Planted::kDeadLock) &&
      !fd_is(wait.descriptor->table, wait.descriptor->fd, chan))
    return fail(Errno::EBADF, "another thread has closed the descriptor");
  Lock* const blocker = file && asks ? next_in_the_way(*file, nullptr, wait.is_record, wait.owner,
                                                       wait.kind, wait.range)
                                     : nullptr;
  if (blocker) {
    if (may_wait == LockWait::kNo) return Errno::EAGAIN;
    if (wait.is_record && would_deadlock(wait, *blocker))
      return fail(Errno::EDEADLK, "the lock's owner waits for a lock of this process");
    // An open file gives up its shared lock before it waits. Otherwise two open files that have
    // shared locks and want exclusive locks would wait for each other forever.
    if (!wait.is_record) drop(*file, false, wait.owner);
    wait_for(wait, *blocker);
    return Tried::kWaits;
  }
  wanted = wanted_by(file, wait);
  if (!spares.has(wanted)) return Tried::kWants;
  if (!file) {
    file = &spares.file();
    file->device = chan.device;
    file->path = chan.qid.path;
    files[bucket_of(chan)].push_back(*file);
  }
  set_range(*file, wait.is_record, owner, wait.kind, wait.range, spares);
  forget_if_idle(file);
  return Tried::kSet;
}

Result<void> set_lock(const Chan& chan, bool is_record, const LockOwner& owner, LockKind kind,
                      ByteRange range, LockWait may_wait,
                      const LockDescriptor* descriptor = nullptr) {
  Spares spares;
  Wait wait;
  wait.descriptor = descriptor;
  wait.owner = owner.owner;
  wait.is_record = is_record;
  wait.kind = kind;
  wait.range = range;
  for (;;) {
    Wanted wanted;
    Tried tried;
    {
      const MutexGuard guard(locks_mutex);
      tried = TRY(try_set(chan, owner, wait, may_wait, spares, wanted));
    }
    if (tried == Tried::kSet) return {};
    if (tried == Tried::kWants) {
      TRY(spares.fill(wanted));
      continue;
    }
    Result<void> waited;
    {
      const Guard guard(wake_lock);
      waited = wait.queue.wait(wake_lock, [&] { return wait.woken; });
    }
    if (waited) continue;
    const MutexGuard guard(locks_mutex);
    if (wait.owner_link.linked()) stop_waiting(wait);
    return waited;
  }
}

}  // namespace

void file_lock_init() {
  lock_cache.init("file_lock");
  file_cache.init("locked_file");
}

Result<ByteRange> byte_range(uint64_t base, int64_t start, int64_t length) {
  int64_t first, end;
  if (__builtin_add_overflow(static_cast<int64_t>(base), start, &first)) return Errno::EINVAL;
  if (length == 0)
    end = INT64_MAX;
  else if (__builtin_add_overflow(first, length, &end))
    return Errno::EINVAL;
  if (length < 0) std::swap(first, end);
  if (first < 0) return Errno::EINVAL;
  const uint64_t last = length == 0 ? ByteRange::kLastByte : static_cast<uint64_t>(end) - 1;
  return ByteRange{static_cast<uint64_t>(first), last};
}

FoundLock record_lock_find(const Chan& chan, const LockOwner& owner, LockKind kind,
                           ByteRange range) {
  const MutexGuard guard(locks_mutex);
  LockedFile* const file = find_file(chan);
  const Lock* found = nullptr;
  if (!file) return {};
  for (Lock* lock = nullptr; (lock = next_in_the_way(*file, lock, true, owner.owner, kind, range));)
    if (!found || lock->range.first < found->range.first) found = lock;
  if (!found) return {};
  return {found->kind, found->range, found->owner.pid};
}

Result<void> record_lock_set(const Chan& chan, const LockOwner& owner, LockKind kind,
                             ByteRange range, LockWait wait, const LockDescriptor* descriptor) {
  return set_lock(chan, true, owner, kind, range, wait, descriptor);
}

void record_locks_drop(const Chan& chan, const void* owner) {
  drop_all(chan, true, owner);
}

Result<void> open_file_lock_set(Chan& chan, LockKind kind, LockWait wait) {
  chan.may_have_lock = true;
  return set_lock(chan, false, {.owner = &chan, .pid = 0}, kind, {}, wait);
}

void open_file_lock_drop(Chan& chan) {
  if (chan.may_have_lock) drop_all(chan, false, &chan);
}
