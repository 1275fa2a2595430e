// A snapshot keeps the records of a trace table unchanged, so that slow readers can walk over them.
//
// To open a snapshot, TraceSnapshot takes the lock of one shard after the other. With the lock held
// it adds up the shard's counters, and stores the snapshot's number in the shard. This takes about
// 100 instructions for each shard and no memory, so a snapshot can be opened when memory is full.
// Each shard is captured at a different moment, but within a shard counters and records agree.
// While a snapshot is open, the locks of the shards are closed to hooks (HookLock). So hooks use
// the slow path, which
//   - marks each new record as newer than the snapshot, by a bit in the header of its page;
//   - holds each older record that is freed: the record leaves its chain and is counted as freed,
//     but its content stays, and it is not reused before the snapshot is closed;
//   - copies an older record before it changes the record: the copy is changed, the original is
//     held.
// So the older records stay in place, and a reader can walk over the pages slice by slice, as often
// as needed. When the table is emptied or destroyed, the snapshot takes over the pages that have
// the older records, and frees these pages when it is closed.
//
// A snapshot is a user of the tables (shared_tables.h): the numbers of stacks and contexts in its
// records stay valid from choose() to close().
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <span>
#include <type_traits>

#include "intern/shared_tables.h"
#include "lib/result.h"
#include "trace/record/table.h"

class TraceSnapshot final : public TableUser {
 public:
  // The most records that are visited, or freed, in one stretch with interrupts off.
  static constexpr uint32_t kSlice = 64;
  // Copies of records, two kilobytes: too large for a kernel stack.
  using Slice = std::array<TraceRecord, kSlice>;

  // The numbers of stacks and contexts that a snapshot holds are copies: the table has the
  // originals.
  TraceSnapshot() : TableUser(Holds::kCopies) {}
  ~TraceSnapshot() { close(); }

  // Selects the table, which then stays in memory until close(), even if its trace ends. The caller
  // holds the control lock, so that the table exists, and should release this lock before open(),
  // which may wait. Does not wait for other snapshots, takes no memory. Each choose() is followed
  // by one close().
  void choose(TraceTable& table);
  // Waits until the table has no other open snapshot, and opens this one. EINTR: the task was
  // interrupted while it waited. ENOENT: the trace has ended meanwhile. After an error the snapshot
  // is closed. The caller holds no lock that is needed to close another snapshot of the table.
  // Interrupts are off for about 100 instructions for each shard.
  Result<void> open();
  // Calls choose() and open(), for a caller that releases no lock in between.
  Result<void> open(TraceTable& table) {
    choose(table);
    return open();
  }

  bool is_open() const { return open_.load(std::memory_order_acquire); }
  void retain(Retained& retained) override;
  // Sums over the shards. Each shard was read when open() captured it. `live` is the number of
  // records that visit() visits.
  const TraceCounters& counters() const { return counters_; }
  const TraceTable& table() const { return *table_; }

  // A walk over the records that were live when open() captured their shard. It includes records
  // that were freed or changed since then, and omits newer records. It proceeds slice by slice,
  // with interrupts on between slices. All walks have the same records in the same order. A record
  // has the content that it had when its shard was captured, with two exceptions. First, reown()
  // changes the owner in the record itself. Second, if there is no memory for a copy, the record
  // itself is changed in two cases: when the process that owns the record ends, the mark becomes 0;
  // when kmem_not_leak() is called for the object, not_leak() becomes true. Any number of walks may
  // be under way; none is used after close().
  class Walk {
   public:
    // The walk copies records to `slice`.
    Walk(TraceSnapshot& snapshot, Slice& slice) : snapshot_(&snapshot), slice_(&slice) {}
    // Returns the next records, valid until the next call of next(); empty at the end.
    std::span<const TraceRecord> next();

   private:
    friend class TraceSnapshot;
    TraceSnapshot* snapshot_;
    uint32_t shard_ = 0;
    TraceTable::RecordPage* page_ = nullptr;
    uint32_t slot_ = 0;
    bool begun_ = false;  // the walk over the pages of shard_ has begun
    Slice* slice_;
  };

  // Calls visit(const TraceRecord&) for each record of a walk that uses `slice`. visit() runs with
  // interrupts on and may sleep. It may return a bool: false ends the walk, and then this function
  // returns false.
  template <typename Visit>
  bool visit(Slice& slice, Visit visit);

  // Frees all held records, in slices. Does nothing if no table is selected. May sleep; no sleeping
  // lock of a rank below kTraceSweep is held. Works in a task that is being killed, too.
  void close();

 private:
  friend class TraceTable;
  // Copies the next records to the walk's slice_, and stores their number in `*count`; it may be 0.
  // False at the end of the walk.
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
    if (count > 0) return std::span(*slice_).first(count);
  }
  return {};
}

template <typename Visit>
bool TraceSnapshot::visit(Slice& slice, Visit visit) {
  Walk walk(*this, slice);
  for (std::span<const TraceRecord> records; !(records = walk.next()).empty();) {
    for (const TraceRecord& record : records) {
      if constexpr (std::is_same_v<decltype(visit(record)), bool>) {
        if (!visit(record)) return false;
      } else {
        visit(record);
      }
    }
  }
  return true;
}
