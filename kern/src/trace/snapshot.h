// The content of a trace table at one moment, for slow readers.
//
// Opening a snapshot adds up the counters of each shard and stores the snapshot's number in the
// shard, with the shard's lock held. This takes a few instructions for each shard and no memory, so
// a snapshot can be opened when memory is full. The moments of the shards differ; within a shard,
// counters and records agree. While a snapshot is open, hooks of the table use the slow path
// (HookLock), which
//   - marks each new record as newer than the snapshot, by a bit in the header of its page;
//   - holds each older record that is freed: the record leaves its chain and is counted as freed,
//     but its content stays, and it is not reused before the snapshot is closed;
//   - copies an older record before a change, and holds the original.
// So the older records stay in place, and a reader can walk over the pages slice by slice, as often
// as needed. When the table is emptied or ends, the snapshot takes over the table's pages and frees
// them when it is closed.
//
// A snapshot holds the numbers of its records' stacks and contexts (shared_tables.h) from choose()
// to close().
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <type_traits>

#include "lib/result.h"
#include "store/shared_tables.h"
#include "trace/trace_table.h"

class TraceSnapshot final : public StoreHolder {
 public:
  // The most record slots that are visited with interrupts off.
  static constexpr uint32_t kSlice = 64;

  // The snapshot's numbers are copies of those in the table's records.
  TraceSnapshot() : StoreHolder(Holds::kCopies) {}
  ~TraceSnapshot() { close(); }

  // Selects the table, which then stays in memory until close(), even if its trace ends. The caller
  // holds the control lock, so that the table exists, and should release the lock before open().
  // Does not wait for other snapshots, takes no memory. Each choose() is followed by one close().
  void choose(TraceTable& table);
  // Waits until the table has no other open snapshot, and opens this one. EINTR: the task was
  // interrupted while it waited. ENOENT: the trace has ended meanwhile. In both cases the snapshot
  // is closed. The caller holds no lock that is needed to close another snapshot of the table.
  // Interrupts are off for about 100 instructions for each shard.
  Result<void> open();
  // Calls choose() and open(), for a caller that holds no lock.
  Result<void> open(TraceTable& table) {
    choose(table);
    return open();
  }

  bool is_open() const { return open_.load(std::memory_order_acquire); }
  void mark(StoreMark& mark) override;
  // Sums over the shards, each read at its moment. `live` is the number of records that visit()
  // visits.
  const TraceCounters& counters() const { return counters_; }
  const TraceTable& table() const { return *table_; }

  // A walk over the records that were live at the moment of their shard, even if they were freed or
  // changed since, and without newer records. It goes slice by slice, with interrupts on between
  // slices. All walks have the same records in the same order. (If there is no memory to copy a
  // record before a change, the walk sees the change: the mark becomes 0 when the record's owner
  // leaves, and not_leak() may become true.) Any number of walks may be under way; none is used
  // after close().
  class Walk {
   public:
    explicit Walk(TraceSnapshot& snapshot) : snapshot_(&snapshot) {}
    // The next records, valid until the next call of next(); empty at the end.
    std::span<const TraceRecord> next();

   private:
    friend class TraceSnapshot;
    TraceSnapshot* snapshot_;
    uint32_t shard_ = 0;
    TraceTable::RecordPage* page_ = nullptr;
    uint32_t slot_ = 0;
    bool begun_ = false;  // the walk over the shard's pages has begun
    TraceRecord slice_[kSlice];
  };

  // Calls visit(const TraceRecord&) for each record of a walk. visit() runs with interrupts on and
  // may sleep. It may return a bool: false ends the walk, and then this function returns false.
  template <typename Visit>
  bool visit(Visit visit);

  // Frees all held records, in slices. Does nothing if no table is selected. May be called with any
  // sleeping lock held, and by a task that is being killed.
  void close();

 private:
  friend class TraceTable;
  // Gets the next records; `*count` may be 0. False if there are no more.
  bool next_slice(Walk& walk, uint32_t* count);
  Result<void> take_turn();
  void leave();
  bool release_slice(TraceTable::Shard& shard, TraceTable::RecordPage** pages);

  TraceTable* table_ = nullptr;  // the table that choose() selected
  std::atomic<bool> open_{false};
  uint32_t number_ = 0;  // number of this snapshot among the snapshots of the table
  TraceCounters counters_ = {};
};

inline std::span<const TraceRecord> TraceSnapshot::Walk::next() {
  for (uint32_t count; snapshot_->next_slice(*this, &count);) {
    if (count > 0) return {slice_, count};
  }
  return {};
}

template <typename Visit>
bool TraceSnapshot::visit(Visit visit) {
  Walk walk(*this);
  for (std::span<const TraceRecord> slice; !(slice = walk.next()).empty();) {
    for (const TraceRecord& record : slice) {
      if constexpr (std::is_same_v<decltype(visit(record)), bool>) {
        if (!visit(record)) return false;
      } else {
        visit(record);
      }
    }
  }
  return true;
}
