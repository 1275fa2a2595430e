// Descriptor tables. Each process has one. fork copies the table; the copy refers to the same open
// files, and so shares their offsets.
//
// The lock is held for a few loads and stores, or for one pass over the table. A channel's last
// reference is dropped after the lock is released, because closing may sleep.

#include "ns/fd_table_impl.h"

#include "core/planted.h"
#include "kmalloc.h"
#include "ns/file_lock.h"
#include "ns/namespace.h"

class FdTable {
 public:
  Spinlock lock{LockRank::kFdTable};
  // Under `lock`.
  Ref<Chan> chans[kMaxFds] GUARDED_BY(lock);
  bool close_on_exec[kMaxFds] GUARDED_BY(lock) = {};
  int limit GUARDED_BY(lock) = kMaxFds;

  // True if the process may have record locks. Only a task of the process sets this.
  std::atomic<bool> may_have_locks{false};

  bool is_open(int fd) REQUIRES(lock) { return fd >= 0 && fd < kMaxFds && chans[fd]; }
};

namespace {

constinit ObjectCache<FdTable> fd_table_cache;

// Holds a channel that leaves a table. The destructor drops the process's record locks on the
// channel's file.
class Closing {
 public:
  explicit Closing(FdTable& table) : table_(table) {}
  ~Closing() {
    if (chan && table_.may_have_locks.load(std::memory_order_relaxed))
      record_locks_drop(*chan, &table_);
  }
  Closing(const Closing&) = delete;
  Closing& operator=(const Closing&) = delete;

  Ref<Chan> chan;

 private:
  FdTable& table_;
};

}  // namespace

void fd_table_init() {
  fd_table_cache.init("fd_table");
}

Result<FdTable*> fd_table_create() {
  return fd_table_cache.make(KM_SLEEP);
}

Result<FdTable*> fd_table_copy(FdTable& table) {
  FdTable* const copy = TRY(fd_table_create());
  copy->lock.not_needed();  // no other task can use the copy yet
  Guard guard(table.lock);
  copy->limit = table.limit;
  for (int fd = 0; fd < kMaxFds; ++fd) {
    copy->chans[fd] = table.chans[fd];
    copy->close_on_exec[fd] = table.close_on_exec[fd];
  }
  return copy;
}

void fd_table_destroy(FdTable* table) {
  for (int fd = 0; fd < kMaxFds && table->may_have_locks; ++fd)
    static_cast<void>(fd_close(*table, fd));
  fd_table_cache.destroy(table);
}

Result<int> fd_install(FdTable& table, Ref<Chan> chan, bool close_on_exec, int lowest) {
  Guard guard(table.lock);
  if (lowest < 0 || lowest >= table.limit) {
    if (planted(Planted::kDupRange)) static_cast<void>(chan.release());
    return lowest == 0 ? Errno::EMFILE : Errno::EINVAL;
  }
  for (int fd = lowest; fd < table.limit; ++fd) {
    if (table.chans[fd]) continue;
    table.chans[fd] = std::move(chan);
    table.close_on_exec[fd] = close_on_exec;
    return fd;
  }
  return Errno::EMFILE;
}

Result<Ref<Chan>> fd_get(FdTable& table, int fd) {
  Guard guard(table.lock);
  if (!table.is_open(fd)) return Errno::EBADF;
  return Ref<Chan>(table.chans[fd]);
}

bool fd_is(FdTable& table, int fd, const Chan& chan) {
  Guard guard(table.lock);
  return table.is_open(fd) && table.chans[fd].get() == &chan;
}

Result<void> fd_close(FdTable& table, int fd) {
  Closing closing(table);  // its destructor runs after the lock is released
  Guard guard(table.lock);
  if (!table.is_open(fd)) return Errno::EBADF;
  closing.chan = std::move(table.chans[fd]);
  return {};
}

Result<int> fd_dup2(FdTable& table, int from, int to, bool close_on_exec) {
  Closing closing(table);
  Guard guard(table.lock);
  if (!table.is_open(from) || to < 0 || to >= kMaxFds) return Errno::EBADF;
  if (from == to) return to;
  if (to >= table.limit) return Errno::EBADF;
  closing.chan = std::move(table.chans[to]);
  table.chans[to] = table.chans[from];
  table.close_on_exec[to] = close_on_exec;
  return to;
}

Result<bool> fd_close_on_exec(FdTable& table, int fd) {
  Guard guard(table.lock);
  if (!table.is_open(fd)) return Errno::EBADF;
  return table.close_on_exec[fd];
}

Result<void> fd_set_close_on_exec(FdTable& table, int fd, bool on) {
  Guard guard(table.lock);
  if (!table.is_open(fd)) return Errno::EBADF;
  table.close_on_exec[fd] = on;
  return {};
}

void fd_close_for_exec(FdTable& table) {
  for (int fd = 0; fd < kMaxFds; ++fd) {
    Closing closing(table);
    Guard guard(table.lock);
    if (table.chans[fd] && table.close_on_exec[fd]) closing.chan = std::move(table.chans[fd]);
  }
}

void fd_fill_standard(FdTable& table, const Ref<Chan>& chan) {
  Guard guard(table.lock);
  for (int fd = 0; fd <= 2; ++fd) {
    if (table.chans[fd]) continue;
    table.chans[fd] = chan;
    table.close_on_exec[fd] = false;
  }
}

void fd_may_have_locks(FdTable& table) {
  table.may_have_locks = true;
}

void fd_set_limit(FdTable& table, int limit) {
  Guard guard(table.lock);
  table.limit = limit;
}
