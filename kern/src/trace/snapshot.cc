#include "trace/snapshot.h"

#include <utility>

#include "store/trace_memory.h"

void TraceSnapshot::choose(TraceTable& table) {
  Guard guard(table.turn_lock_);
  table.snapshots_++;
  table_ = &table;
}

Result<void> TraceSnapshot::open() {
  const Result<void> turn = take_turn();
  if (!turn) {
    leave();
    return turn;
  }
  open_ = true;
  counters_ = {};
  for (TraceTable::Shard& shard : table_->all_shards()) {
    const ProbesOff no_hit;
    HookLockGuard guard(shard.lock);
    shard.moment = {.number = number_, .pages = shard.store.pages};
    shard.update_lock();
    counters_ += shard.counters();
  }
  return {};
}

Result<void> TraceSnapshot::take_turn() {
  TraceTable& table = *table_;
  Guard guard(table.turn_lock_);
  TRY(table.turn_.wait(table.turn_lock_,
                       [&]() NO_THREAD_SAFETY_ANALYSIS { return !table.taken_ || table.ended_; }));
  if (table.ended_) return Errno::ENOENT;
  table.taken_ = true;
  if (++table.number_ == 0) table.number_++;  // 0 is none
  number_ = table.number_;
  return {};
}

// The table's memory goes with the last that knows of it.
void TraceSnapshot::leave() {
  TraceTable* const table = std::exchange(table_, nullptr);
  bool last;
  {
    Guard guard(table->turn_lock_);
    if (open_) table->taken_ = false;
    last = --table->snapshots_ == 0 && table->ended_;
    table->turn_.wake_one();
  }
  open_ = false;
  if (last) TraceTable::free_memory(table);
}

bool TraceSnapshot::next_slice(Cursor& cursor, uint32_t* count) {
  *count = 0;
  if (!open_ || cursor.shard == table_->shards()) return false;
  TraceTable::Shard& shard = table_->all_shards()[cursor.shard];
  const ProbesOff no_hit;
  HookLockGuard guard(shard.lock);
  if (!cursor.begun) {
    cursor.page = shard.moment.pages;
    cursor.slot = 0;
    cursor.begun = true;
  }
  TraceTable::RecordPage* const page = cursor.page;
  if (page) {
    static_assert(kSlice == 64, "the bits of a slice are a word");
    const uint32_t end = std::min(cursor.slot + kSlice, page->used);
    uint64_t newer = page->snapshot == number_ ? page->newer[cursor.slot / kSlice] : 0;
    TraceRecord* copy = slice_;
    for (const TraceTable::Record* record = &page->records[cursor.slot];
         record < &page->records[end]; record++, newer >>= 1) {
      if (record->used() && (newer & 1) == 0) *copy++ = TraceTable::copy_of(*record);
    }
    *count = static_cast<uint32_t>(copy - slice_);
    cursor.slot = end;
    if (end < page->used) return true;
    cursor.page = page->next;
    cursor.slot = 0;
  }
  if (!cursor.page) {
    cursor.shard++;
    cursor.begun = false;
  }
  return true;
}

// Gives the next of what is held of a shard back; false when the moment is over. When the shard has
// been emptied, its old pages are left in *pages.
bool TraceSnapshot::release_slice(TraceTable::Shard& shard, TraceTable::RecordPage** pages) {
  const ProbesOff no_hit;
  HookLockGuard guard(shard.lock);
  TraceTable::Moment& moment = shard.moment;
  for (uint32_t i = 0; moment.held && i < kSlice; i++) {
    TraceTable::Record* const record = moment.held;
    moment.held = record->next_held();
    shard.give_back(record);
  }
  if (moment.held) return true;
  if (moment.owns) *pages = moment.pages;
  moment = {};
  shard.update_lock();
  return false;
}

void TraceSnapshot::close() {
  if (!table_) return;
  if (open_) {
    for (TraceTable::Shard& shard : table_->all_shards()) {
      TraceTable::RecordPage* pages = nullptr;
      while (release_slice(shard, &pages)) {
      }
      while (pages) trace_page_free(std::exchange(pages, pages->next));
    }
  }
  leave();
}
