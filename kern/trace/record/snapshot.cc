#include "trace/record/snapshot.h"

#include <utility>

#include "core/log.h"
#include "intern/trace_memory.h"

void TraceSnapshot::choose(TraceTable& table) {
  {
    Guard guard(table.turn_lock_);
    table.users_++;
    table_ = &table;
  }
  const Result<void> added = trace_users_add(*this);
  ASSERT(added.ok());  // the trace table uses the shared tables, so they are ready
}

Result<void> TraceSnapshot::open() {
  const Result<void> turn = take_turn();
  if (!turn) {
    close();
    return turn;
  }
  counters_ = {};
  const RetainingStopped stopped;  // a table that ends meanwhile stays a user until is_open()
  for (TraceTable::Shard& shard : table_->all_shards()) {
    const ProbesOff no_hit;
    Guard guard(shard.lock);
    shard.snapshot = {.number = number_, .pages = shard.store.pages};
    shard.update_lock();
    counters_ += shard.counters();
  }
  if (table_->source.references()) counters_.bytes = 0;
  open_.store(true, std::memory_order_release);
  return {};
}

// Retains nothing before the snapshot is open. This is correct: the numbers in the snapshot are
// those in the records of the table, and in each sweep the sweeper calls retain() of tables before
// retain() of snapshots.
void TraceSnapshot::retain(Retained& retained) {
  static constinit Slice slice{};  // sweeps call retain(), one at a time (trace_sweep_lock)
  visit(slice, [&retained](const TraceRecord& record) {
    retained.stack(record.stack);
    retained.stack(record.user_stack);
    retained.context(record.context);
  });
}

Result<void> TraceSnapshot::take_turn() {
  TraceTable& table = *table_;
  Guard guard(table.turn_lock_);
  TRY(table.turn_.wait(table.turn_lock_,
                       [&]() REQUIRES(table.turn_lock_) { return !table.taken_ || table.ended_; }));
  if (table.ended_) return Errno::ENOENT;
  table.taken_ = true;
  if (++table.number_ == 0) table.number_++;  // 0 means no snapshot
  number_ = table.number_;
  return {};
}

// Lets the next snapshot open, and ends the use of the table.
void TraceSnapshot::leave() {
  TraceTable* const table = std::exchange(table_, nullptr);
  {
    Guard guard(table->turn_lock_);
    if (is_open()) table->taken_ = false;
    table->turn_.wake_one();
  }
  open_.store(false, std::memory_order_relaxed);
  TraceTable::leave(table);
}

bool TraceSnapshot::next_slice(Walk& walk, uint32_t* count) {
  *count = 0;
  if (!is_open() || walk.shard_ == table_->shards()) return false;
  TraceTable::Shard& shard = table_->all_shards()[walk.shard_];
  const ProbesOff no_hit;
  Guard guard(shard.lock);
  if (!walk.begun_) {
    walk.page_ = shard.snapshot.pages;
    walk.slot_ = 0;
    walk.begun_ = true;
  }
  TraceTable::RecordPage* const page = walk.page_;
  if (page) {
    static_assert(kSlice == 64, "the bits of a slice are a word");
    const uint32_t end = std::min(walk.slot_ + kSlice, page->used);
    uint64_t newer = page->snapshot == number_ ? page->newer[walk.slot_ / kSlice] : 0;
    TraceRecord* const copies = walk.slice_->data();
    TraceRecord* copy = copies;
    for (const TraceTable::Record* record = &page->records[walk.slot_];
         record < &page->records[end]; record++, newer >>= 1) {
      if (record->used() && (newer & 1) == 0) *copy++ = table_->copy_of(*record);
    }
    *count = static_cast<uint32_t>(copy - copies);
    walk.slot_ = end;
    if (end < page->used) return true;
    walk.page_ = page->next;
    walk.slot_ = 0;
  }
  if (!walk.page_) {
    walk.shard_++;
    walk.begun_ = false;
  }
  return true;
}

// Frees up to kSlice held records of a shard. Returns false when none are left: the shard then
// serves no snapshot any more. If the shard was emptied while the snapshot was open, `*pages` is
// then set to the pages that the snapshot owns.
bool TraceSnapshot::release_slice(TraceTable::Shard& shard, TraceTable::RecordPage** pages) {
  const ProbesOff no_hit;
  Guard guard(shard.lock);
  TraceTable::ShardSnapshot& snapshot = shard.snapshot;
  for (uint32_t i = 0; snapshot.held && i < kSlice; i++) {
    TraceTable::Record* const record = snapshot.held;
    snapshot.held = record->next();
    shard.give_back(record);
  }
  if (snapshot.held) return true;
  if (snapshot.owns) *pages = snapshot.pages;
  snapshot = {};
  shard.update_lock();
  return false;
}

void TraceSnapshot::close() {
  if (!table_) return;
  trace_users_drop(*this);
  if (is_open()) {
    for (TraceTable::Shard& shard : table_->all_shards()) {
      TraceTable::RecordPage* pages = nullptr;
      while (release_slice(shard, &pages)) {
      }
      while (pages) trace_page_free(std::exchange(pages, pages->next));
    }
  }
  leave();
}
