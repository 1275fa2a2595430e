// Operations on all records of a table. They work in slices; between two slices the shard's lock is
// free.
#include <bit>
#include <utility>

#include "intern/trace_memory.h"
#include "trace/record/table.h"

void TraceTable::leave(TraceOwner owner, Leave how) {
  for (Shard& shard : all_shards()) {
    trace_memory_prepare();
    walk(shard, [&](Record& record) {
      shard.lock.known_held();
      if (!record.is_owned_by(owner)) return;
      if (how == Leave::kKeep) {
        Record* const changed = changeable(shard, &record);
        (changed ? changed : &record)->object_mark = record.object();
      } else {
        free_record(shard, &record);
        shard.tally.freed--;
        shard.tally.cleared++;
      }
    });
  }
}

void TraceTable::shorten(Shard& shard, Record* record, uint64_t size) {
  shard.tally.bytes -= record->bytes() - size;
  if (!record->is_large()) {
    record->size = static_cast<uint32_t>(size);
  } else if (size >= kLargeSize) {
    record->large()->size = size;
  } else {
    Large* const large = record->large();
    record->size = static_cast<uint32_t>(size);
    std::atomic_signal_fence(std::memory_order_release);
    record->replace_names(large->names);
    shard.store.give_back(reinterpret_cast<Record*>(large));
    shard.larges--;
    shard.update_lock();
  }
}

// First adds a record for the part that begins at `to`, then shortens or frees the old record. The
// lock is held throughout. A walk that retains stacks may be under way, and may have passed the
// place of the new record. The change of copies_ makes such a walk restart, so it finds the new
// record.
void TraceTable::cut_record(Shard& shard, Record* record, uint64_t from, uint64_t to) {
  const uint64_t begin = record->object(), end = begin + record->bytes();
  if (end > to) {
    const TraceEvent behind = {.object = to,
                               .size = end - to,
                               .stack = record->stack(),
                               .user_stack = Record::user_stack_in(record->names()),
                               .context = Record::context_in(record->names()),
                               .time = record->allocated_at(),
                               .cpu = record->cpu(),
                               .truncated = false};
    const uint64_t word = TraceRecord::word_of(to, record->mark());
    record_rest(shard, behind, word);
    copies_.fetch_add(1, std::memory_order_release);
  }
  Record* const changed = begin < from ? changeable(shard, record) : nullptr;
  if (changed) return shorten(shard, changed, from - begin);
  if (begin < from) shard.tally.dropped++;
  free_record(shard, record);
}

bool TraceTable::cut_first(uint64_t from, uint64_t to, TraceOwner owner) {
  if (!holds(from)) return false;
  const uint64_t word = TraceRecord::word_of(from, owner);
  const uint32_t hash = hash_of(from);
  for (uint64_t left = home(hash); left != 0; left &= left - 1) {
    Shard& shard = first_shard()[std::countr_zero(left)];
    const ProbesOff no_hit;
    Guard guard(shard.lock);
    Record* record = shard.store.bucket(shard.store.bucket_of(hash));
    while (record && record->object_mark != word) record = record->next();
    if (!record) continue;
    if (from + align_up(record->bytes(), kPageSize) < to) return false;
    cut_record(shard, record, from, to);
    return true;
  }
  return false;
}

// Usually a program unmaps a whole range, or the beginning of a range. Then cut_first() finds the
// record by its hash. No other record is affected, since ranges of one process do not overlap. In
// all other cases this function walks over all records. An index by address would be faster here,
// but would cost memory in each record and time in each mapping.
bool TraceTable::cut(uint64_t address, uint64_t size, TraceOwner owner) {
  const uint64_t end = address + size;
  trace_memory_prepare();
  if (cut_first(address, end, owner)) return true;
  bool any = false;
  for (Shard& shard : all_shards()) {
    trace_memory_prepare();
    walk(shard, [&](Record& record) {
      shard.lock.known_held();
      if (!record.is_owned_by(owner)) return;
      if (record.object() >= end || record.object() + record.bytes() <= address) return;
      any = true;
      cut_record(shard, &record, address, end);
    });
  }
  if (any) return true;
  const ProbesOff no_hit;
  Shard& shard = *first_shard();
  Guard guard(shard.lock);
  shard.tally.cut_nothing++;
  return false;
}

void TraceTable::trim() {
  for (Shard& shard : all_shards()) {
    Store old;
    {
      const ProbesOff no_hit;
      Guard guard(shard.lock);
      if (!shard.store.pages || shard.live() > 0 || shard.snapshot.number != 0) continue;
      shard.store.move_to(old);
      shard.times_emptied++;
    }
    old.release(nullptr);
  }
}

void TraceTable::clear() {
  for (Shard& shard : all_shards()) {
    const RecordPage* kept = nullptr;  // this page and those after it now belong to the snapshot
    Store old;
    {
      const ProbesOff no_hit;
      Guard guard(shard.lock);
      shard.store.move_to(old);
      shard.tally.cleared += shard.live();
      shard.tally.bytes = 0;
      shard.larges = 0;
      shard.times_emptied++;
      if (shard.snapshot.number != 0 && !shard.snapshot.owns) {
        shard.snapshot.owns = true;
        shard.snapshot.held = nullptr;
        kept = shard.snapshot.pages;
      }
      shard.update_lock();
    }
    old.release(kept);
  }
}

SampleWeight TraceTable::estimate(const TraceCounters& counters) {
  if (options_.sample == 0) {
    return {counters.bytes << SampleWeight::kShift, counters.live << SampleWeight::kShift};
  }
  SampleSum sum(options_.sample);
  for (Shard& shard : all_shards()) {
    // A copy of a record (changeable) may come later in the walk than the record itself, so the
    // walk begins anew.
    const SampleSum others = sum;
    uint32_t copies;
    do {
      copies = copies_.load(std::memory_order_acquire);
      walk(
          shard, [&](const Record& record) { sum.add(record.bytes()); }, [&] { sum = others; });
    } while (copies_.load(std::memory_order_acquire) != copies);
  }
  return sum.sum();
}

TraceCounters TraceTable::counters() {
  TraceCounters sum = {};
  for (Shard& shard : all_shards()) {
    const ProbesOff no_hit;
    Guard guard(shard.lock);
    sum += shard.counters();
  }
  // The record of a reference has place_of() as its size, so a sum of sizes has no meaning.
  if (source.references()) sum.bytes = 0;
  return sum;
}

// Also frees the memory of empty shards, because the sweeper calls this function regularly.
//
// A sweep visits all records, and is often due when memory is short. Neighbours often have the same
// stack and context. Only the first of them is copied out of the slice, so that each of the others
// costs about 15 instructions.
//
// The counts of frees come last: a free moves the number of a stack from the record to the counts.
void TraceTable::Names::retain(Retained& retained) {
  struct Numbers {
    StackId stack = StackId::kNone;
    uint64_t names = 0;
    bool operator==(const Numbers&) const = default;
  };
  table_.trim();
  Numbers taken, last;
  const auto take = [&taken](const Record& record, Numbers& copy) {
    const Numbers numbers = {record.stack(), record.names()};
    if (numbers == taken) return false;
    copy = taken = numbers;
    return true;
  };
  static constinit Numbers copies[kSlice];  // sweeps run one at a time (trace_sweep_lock)
  table_.visit_copies(copies, take, [&](const Numbers& numbers) {
    if (numbers.stack != last.stack) retained.stack(numbers.stack);
    if (numbers.names != last.names) {
      retained.stack(Record::user_stack_in(numbers.names));
      retained.context(Record::context_in(numbers.names));
    }
    last = numbers;
  });
  if (const FreeCounts* const frees = table_.frees_) {
    frees->visit([&retained](StackId allocated_by, StackId freed_by, uint64_t) {
      retained.stack(allocated_by);
      retained.stack(freed_by);
    });
  }
}
