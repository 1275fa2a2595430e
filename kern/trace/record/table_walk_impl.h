// Walks over the records of a table: the templates of trace/record/table.h, which includes this
// file.
//
// A walk visits the pages of records slice by slice, with the shard's lock held. Between two slices
// the lock is free, and the walk stores its position. New pages are added in front of the existing
// ones, so a walk reaches each page that existed when the walk began. If the shard is emptied, the
// walk restarts.
#pragma once

#include <utility>

#include "trace/record/table.h"

inline uint64_t TraceTable::object_at(uint64_t place) {
  return place ? reinterpret_cast<uint64_t>(direct_map({place * kPlaceUnit})) : 0;
}

inline TraceRecord TraceTable::copy_of(const Record& record) const {
  TraceRecord copy;
  const uint64_t names = record.names(), time = record.allocated_at().value;
  uint64_t bytes = record.bytes();
  copy.stack = record.stack();
  copy.user_stack = Record::user_stack_in(names);
  copy.context = Record::context_in(names);
  copy.time_ = static_cast<uint32_t>(time);
  copy.object_mark_ = record.object_mark;
  if (source.references()) [[unlikely]] {
    copy.object_mark_ = TraceRecord::word_of(object_at(bytes), record.mark());
    bytes = 0;
  }
  copy.size_cpu_ = bytes << 16 | (record.not_leak() ? TraceRecord::kNotLeak : 0) |
                   time >> 32 << kStampCpuBits | number_of(record.cpu());
  return copy;
}

// The list of pages is consistent at every moment, and in each page the first `used` records are
// initialised (take_fresh_record). So visit_standing() and visit_references() need no lock while
// all other CPUs are stopped.
template <typename Visit>
void TraceTable::visit_standing(unsigned index, Visit visit) {
  const Shard& shard = first_shard()[index];
  shard.lock.not_needed();
  for (const RecordPage* page = shard.store.pages; page; page = page->next) {
    for (uint32_t slot = 0; slot < page->used; slot++) {
      const Record& record = page->records[slot];
      if (record.used() && !record.is_held()) visit(copy_of(record));
    }
  }
}

template <typename Visit>
void TraceTable::visit_references(Visit visit) {
  for (const Shard& shard : all_shards()) {
    shard.lock.not_needed();
    for (const RecordPage* page = shard.store.pages; page; page = page->next) {
      for (uint32_t slot = 0; slot < page->used; slot++) {
        const Record& record = page->records[slot];
        if (record.used() && !record.is_held())
          visit(record.object(), object_at(record.size), record.stack());
      }
    }
  }
}

// The position of a walk in a shard, so that the lock is not held between slices.
struct TraceTable::Walk {
  // The pages that the walk visits: those of the shard's store, or those that the snapshot owns.
  enum class Of : uint8_t { kStore, kSnapshot };
  Of of = Of::kStore;
  bool begun = false;
  uint32_t slot = 0;
  // Shard::times_emptied, or the snapshot's number, when the walk took `page`. If the present
  // value differs, these pages do not belong to the shard or snapshot any more, and the walk
  // restarts.
  uint32_t key = 0;
  RecordPage* page = nullptr;

  // True if the next slice begins at the first page: at the beginning of the walk, and again when
  // the pages have changed.
  bool begins(const Shard& shard) const REQUIRES(shard.lock) {
    return !begun || key != present_key(shard);
  }
  uint32_t present_key(const Shard& shard) const REQUIRES(shard.lock) {
    if (of == Of::kStore) return shard.times_emptied;
    return shard.snapshot.owns ? shard.snapshot.number : 0;
  }
  // Calls visit(record) for each record in use among the next kSlice records; false at the end. Of
  // the snapshot's own pages, the records that are newer than the snapshot are left out: clear()
  // has removed them, and has perhaps freed the page with the Large of one.
  template <typename Visit>
  bool slice(Shard& shard, Visit visit) REQUIRES(shard.lock) {
    if (begins(shard)) {
      const bool owns = shard.snapshot.owns;
      page = of == Of::kStore ? shard.store.pages : owns ? shard.snapshot.pages : nullptr;
      slot = 0;
      key = present_key(shard);
      begun = true;
    }
    if (!page) return false;
    const uint32_t end = std::min(slot + kSlice, page->used);
    for (; slot < end; slot++) {
      Record& record = page->records[slot];
      if (record.used() && !(of == Of::kSnapshot && page->is_newer(slot, key))) visit(record);
    }
    if (slot < page->used) return true;
    page = page->next;
    slot = 0;
    return page != nullptr;
  }
};

template <typename Visit, typename Begin>
void TraceTable::walk(Shard& shard, Visit visit, Begin begin) {
  for (Walk walk;;) {
    const ProbesOff no_hit;
    Guard guard(shard.lock);
    if (walk.begins(shard)) begin();
    if (!walk.slice(shard, [&](Record& record) {
          if (!record.is_held()) visit(record);
        }))
      return;
  }
}

template <typename Visit>
bool TraceTable::try_visit(unsigned index, Visit visit) {
  Shard& shard = first_shard()[index];
  for (Walk walk;;) {
    const ProbesOff no_hit;
    const TryGuard guard(shard.lock);
    if (!guard) {
      if (!walk.begun) return false;
      continue;
    }
    shard.lock.known_held();
    if (!walk.slice(shard, [&](const Record& record) {
          if (!record.is_held()) visit(copy_of(record));
        }))
      return true;
  }
}

template <typename Copy, typename Take, typename Visit>
void TraceTable::visit_copies(Copy (&copies)[kSlice], Take take, Visit visit) {
  for (uint32_t made = copies_.load(std::memory_order_acquire), seen = ~made; made != seen;) {
    seen = made;
    for (Shard& shard : all_shards()) {
      for (const Walk::Of of : {Walk::Of::kStore, Walk::Of::kSnapshot}) {
        Walk walk = {.of = of};
        for (bool more = true; more;) {
          uint32_t count = 0;
          {
            const ProbesOff no_hit;
            Guard guard(shard.lock);
            more = walk.slice(shard,
                              [&](const Record& record) { count += take(record, copies[count]); });
          }
          for (uint32_t i = 0; i < count; i++) visit(std::as_const(copies[i]));
        }
      }
    }
    made = copies_.load(std::memory_order_acquire);
  }
}

template <typename Visit>
void TraceTable::visit_slices(Visit visit) {
  const auto take = [this](const Record& record, TraceRecord& copy) {
    copy = copy_of(record);
    return true;
  };
  TraceRecord copies[kSlice];
  visit_copies(copies, take, visit);
}
