// A table at one moment, for a reader that takes its time.
//
// Opening one adds up the counters of each shard and gives the shard the snapshot's number, under
// its lock: a few instructions a shard, and no memory, so that a snapshot can be opened when all
// memory is full. Shards differ in moment; within each, counters and records agree. While it is
// open, hooks of the table go the long way (HookLock), which
//   - marks each record that is taken as newer: a bit in the header of its page,
//   - holds each older record that is freed: it leaves its chain and is counted as freed, but keeps
//     its content, and is not used again before the snapshot is closed,
//   - copies an older record that is to be changed, and holds what it was.
// So the older records stay where they lie, and a reader walks over the pages, slice after slice,
// as often as it likes. When the table is emptied, or ends, its pages are handed to the snapshot,
// which gives them back when it is closed.
//
// A snapshot holds the numbers of stacks and contexts that its records have (shared_tables.h), from
// choose() to close().
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
  // Slots of records that are looked at, at most, while interrupts are off.
  static constexpr uint32_t kSlice = 64;

  // Its records are those of the table, an original.
  TraceSnapshot() : StoreHolder(Holds::kCopies) {}
  ~TraceSnapshot() { close(); }

  // Says which table it is of. From now on until close() the table stays in memory, even if its
  // trace ends. The caller sees to it that the table is there now, by holding the control lock,
  // which it should release before open(). Does not wait for other snapshots, takes no memory. Once
  // for each snapshot that is closed.
  void choose(TraceTable& table);
  // Waits until the table has no other snapshot, and opens this one. EINTR: the task was
  // interrupted while it waited. ENOENT: the trace has ended before. In both cases the snapshot is
  // closed. No lock held that others need to close theirs. Interrupts are off for some 100
  // instructions a shard.
  Result<void> open();
  // Both, for a caller whose locks need not be released in between.
  Result<void> open(TraceTable& table) {
    choose(table);
    return open();
  }

  bool is_open() const { return open_.load(std::memory_order_acquire); }
  void mark(StoreMark& mark) override;
  // Sums over the shards, each at its moment. live() is how many records visit() finds.
  const TraceCounters& counters() const { return counters_; }
  const TraceTable& table() const { return *table_; }

  // The records that were live at the moment of their shard, also those freed or changed since, and
  // none that is newer; a slice at a time, with interrupts on in between. Every walk has the same
  // records in the same order. (Only their mark may become 0, where it is an owner that has left,
  // and not_leak() true, if there was no memory to copy the record.) Any number of walks may be
  // under way; none is used after close().
  class Walk {
   public:
    explicit Walk(TraceSnapshot& snapshot) : snapshot_(&snapshot) {}
    // The next ones, valid until the next call; none at the end.
    std::span<const TraceRecord> next();

   private:
    friend class TraceSnapshot;
    TraceSnapshot* snapshot_;
    uint32_t shard_ = 0;
    TraceTable::RecordPage* page_ = nullptr;
    uint32_t slot_ = 0;
    bool begun_ = false;  // the shard's pages
    TraceRecord slice_[kSlice];
  };

  // Calls visit(const TraceRecord&) for each record of a walk. visit() runs with interrupts on and
  // may sleep. If it returns a bool, false ends the walk; then visit() is false.
  template <typename Visit>
  bool visit(Visit visit);

  // Gives back what was held, in slices. Nothing if it is not open. May be called with any sleeping
  // lock held, and by a task that is being killed.
  void close();

 private:
  friend class TraceTable;
  // The next of its records, `*count` of them, which may be 0; false if there are no more.
  bool next_slice(Walk& walk, uint32_t* count);
  Result<void> take_turn();
  void leave();
  bool release_slice(TraceTable::Shard& shard, TraceTable::RecordPage** pages);

  TraceTable* table_ = nullptr;  // that was chosen
  std::atomic<bool> open_{false};
  uint32_t number_ = 0;  // of the table's snapshots
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
