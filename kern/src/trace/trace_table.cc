#include "trace/trace_table.h"

#include <algorithm>
#include <bit>
#include <new>
#include <utility>

#include "core/planted.h"
#include "store/trace_memory.h"

TraceCounters& TraceCounters::operator+=(const TraceCounters& other) {
  seen += other.seen;
  recorded += other.recorded;
  dropped += other.dropped;
  filtered += other.filtered;
  freed += other.freed;
  cleared += other.cleared;
  unmatched += other.unmatched;
  live_bytes += other.live_bytes;
  stacks_lost += other.stacks_lost;
  contexts_lost += other.contexts_lost;
  truncated += other.truncated;
  return *this;
}

TraceTable::TraceTable() {
  for (unsigned i = 0; i < kShards; i++) {
    shards_[i].bit = static_cast<uint16_t>(1u << i);
    shards_[i].others = static_cast<uint16_t>(~shards_[i].bit);
  }
}

TraceTable* TraceTable::create() {
  trace_memory_prepare();
  void* page = trace_page_take();
  // The first hook, which has a stack and a context to store, is to find the pool full.
  for (uint32_t i = 0; i <= kSparePages; i++) trace_memory_prepare();
  return page ? new (page) TraceTable : nullptr;
}

void TraceTable::destroy(TraceTable* table) {
  table->clear();
  table->~TraceTable();
  if (!planted(Planted::kTraceTable)) trace_page_free(table);
}

// In an order in which visit_standing() may find it at every moment.
TraceTable::Record* TraceTable::Store::take_fresh_record() {
  if (!pages || pages->used == RecordPage::kRecords) {
    auto* page = static_cast<RecordPage*>(trace_page_take());
    if (!page) return nullptr;
    page->next = pages;
    page->used = 0;
    std::atomic_signal_fence(std::memory_order_release);
    pages = page;
  }
  if (++records > buckets) grow();
  Record* const record = &pages->records[pages->used];
  record->object_mark = 0;
  std::atomic_signal_fence(std::memory_order_release);
  pages->used++;
  return record;
}

// Adds a bucket, if there is memory for it, and moves to it what belongs there from the one bucket
// that it is split from.
void TraceTable::Store::grow() {
  if (buckets == kMaxBuckets) return;
  if (buckets == kFirstBuckets || buckets % kSegmentBuckets == 0) {
    if (!directory && !(directory = static_cast<Segment**>(trace_page_take()))) return;
    auto* segment = static_cast<Segment*>(trace_page_take());
    if (!segment) return;
    directory[buckets / kSegmentBuckets] = segment;
  }
  const uint32_t level = std::bit_floor(buckets);
  Record** link = &bucket(buckets - level);
  Record*& target = bucket(buckets);
  Record* moved = nullptr;
  Record* kept = nullptr;
  for (Record* record = *link; record;) {
    Record* next = record->next();
    Record*& list = (hash_of(record->object()) & (2 * level - 1)) == buckets ? moved : kept;
    record->set_next(list);
    list = record;
    record = next;
  }
  *link = kept;
  target = moved;
  buckets++;
  mask = 2 * std::bit_floor(buckets) - 1;
}

void TraceTable::Store::release() {
  while (pages) trace_page_free(std::exchange(pages, pages->next));
  if (!directory) return;
  const uint32_t segments =
      buckets == kFirstBuckets ? 0 : (buckets + kSegmentBuckets - 1) / kSegmentBuckets;
  for (uint32_t i = 0; i < segments; i++) trace_page_free(directory[i]);
  trace_page_free(directory);
}

void TraceTable::Store::sweep_large() {
  for (int i = 0; i < kSweep; i++) {
    Large*& link = swept ? swept->next : large;
    Large* const entry = link;
    if (!entry) {
      swept = nullptr;
      return;
    }
    if (entry->holds()) {
      swept = entry;
    } else {
      link = entry->next;
      give_back(reinterpret_cast<Record*>(entry));
    }
  }
}

TraceTable::Large* TraceTable::Store::take_large(bool fresh) {
  sweep_large();
  Record* const place = fresh ? take_record() : take_free_record();
  return place ? new (place) Large{} : nullptr;
}

TraceCounters TraceTable::Shard::counters() const {
  uint64_t beyond = 0;
  for (const Large* entry = store.large; entry; entry = entry->next)
    beyond += entry->holds() ? entry->size - entry->number() : 0;
  return {.seen = tally.recorded + tally.dropped + tally.filtered,
          .recorded = tally.recorded,
          .dropped = tally.dropped,
          .filtered = tally.filtered,
          .freed = tally.freed,
          .cleared = tally.cleared,
          .unmatched = tally.unmatched,
          .live_bytes = tally.live_bytes + beyond,
          .stacks_lost = tally.stacks_lost,
          .contexts_lost = tally.contexts_lost,
          .truncated = tally.truncated};
}

// In use, for visit_standing(), when all else is there.
[[gnu::always_inline]] inline void TraceTable::put_record(Shard& shard, Record* record,
                                                          const TraceEvent& event, uint32_t size,
                                                          uint64_t word) {
  const uint32_t hash = hash_of(event.object);
  Store& store = shard.store;
  Tally& tally = shard.tally;
  tally.recorded++;
  tally.live_bytes += size;
  tally.stacks_lost += event.stack == 0 || event.user_stack_lost;
  tally.contexts_lost += event.context == 0;
  tally.truncated += event.truncated;
  if ((home(hash) & shard.bit) == 0)
    homes_[hash % kHomes].fetch_or(shard.bit, std::memory_order_relaxed);
  Record*& head = store.bucket(store.bucket_of(hash));
  record->next_stamp = reinterpret_cast<uint64_t>(head) << 16 | cpu_stamp(event.cpu, event.time);
  record->stack = event.stack;
  record->size = size;
  record->time = static_cast<uint32_t>(event.time);
  record->context = event.context;
  std::atomic_signal_fence(std::memory_order_release);
  record->object_mark = word;
  head = record;
}

[[gnu::always_inline]] inline bool TraceTable::record_in(Shard& shard, const TraceEvent& event,
                                                         uint64_t word,
                                                         bool fresh) NO_THREAD_SAFETY_ANALYSIS {
  if (event.size >= kLargeSize) [[unlikely]]
    return record_large_in(shard, event, word, fresh);
  Store& store = shard.store;
  Record* const record = fresh ? store.take_record() : store.take_free_record();
  if (record) put_record(shard, record, event, static_cast<uint32_t>(event.size), word);
  return record;
}

void TraceTable::record(const TraceEvent& event) {
  record(event, static_cast<uint16_t>(mark.load(std::memory_order_relaxed)));
}

void TraceTable::record(const TraceEvent& event, uint16_t mark_or_owner) {
  if (!holds(event.object)) return drop(event.cpu);
  const uint64_t word = word_of(event.object, mark_or_owner);
  {
    Shard& own = shard_of(event.cpu);
    Guard guard(own.lock);
    if (record_in(own, event, word, true)) return;
  }
  if (!record_in_any(event, word)) drop(event.cpu);
}

bool TraceTable::record_in_any(const TraceEvent& event, uint64_t word) NO_THREAD_SAFETY_ANALYSIS {
  for (Shard& shard : shards_) {
    const TryGuard guard(shard.lock);
    if (guard && record_in(shard, event, word, false)) return true;
  }
  return false;
}

[[gnu::noinline, gnu::cold]] bool TraceTable::record_large_in(
    Shard& shard, const TraceEvent& event, uint64_t word, bool fresh) NO_THREAD_SAFETY_ANALYSIS {
  Store& store = shard.store;
  Large* const large = event.size <= kMaxSize ? store.take_large(fresh) : nullptr;
  if (!large) return false;
  Record* const record = fresh ? store.take_record() : store.take_free_record();
  if (!record) {
    store.give_back(reinterpret_cast<Record*>(large));
    return false;
  }
  *large = {event.size, record, 0, store.large};
  put_record(shard, record, event, large->number(), word);
  std::atomic_signal_fence(std::memory_order_release);
  store.large = large;
  return true;
}

void TraceTable::filter(uint32_t cpu) {
  Shard& shard = shard_of(cpu);
  Guard guard(shard.lock);
  shard.tally.filtered++;
}

void TraceTable::forget(uint64_t object, uint32_t cpu) {
  if (!holds(object)) return count_unmatched(cpu);
  forget_word(word_of(object, 0), 16, cpu);
}

// Mostly the CPU that frees has the record, in front of its chain, and nobody else its lock.
bool TraceTable::forget_of(uint16_t owner, uint64_t object,
                           uint32_t cpu) NO_THREAD_SAFETY_ANALYSIS {
  if (!holds(object)) [[unlikely]] {
    count_unmatched(cpu);
    return false;
  }
  const uint64_t word = word_of(object, owner);
  Shard& shard = shard_of(cpu);
  if (shard.lock.lock_in_hook()) [[likely]] {
    Record*& head = shard.store.bucket(shard.store.bucket_of(hash_of(object)));
    Record* const record = head;
    const bool first = record && record->object_mark == word;
    if (first) {
      head = record->next();
      count_freed(shard, record);
    }
    shard.lock.unlock_in_hook();
    if (first) return true;
  }
  return forget_word(word, 0, cpu);
}

// Whoever frees an object has been given it, and so sees the bit of the shard that has its record.
bool TraceTable::forget_word(uint64_t word, unsigned ignored, uint32_t cpu) {
  const unsigned own = cpu % kShards;
  const uint64_t object = static_cast<uint64_t>(static_cast<int64_t>(word) >> 16);
  if (forget_in(own, word, ignored)) return true;
  for (uint32_t left = home(hash_of(object)) & shards_[own].others; left != 0; left &= left - 1) {
    if (forget_in(static_cast<unsigned>(std::countr_zero(left)), word, ignored)) return true;
  }
  count_unmatched(cpu);
  return false;
}

bool TraceTable::forget_in(unsigned index, uint64_t word, unsigned ignored) {
  Shard& shard = shards_[index];
  Guard guard(shard.lock);
  Store& store = shard.store;
  const uint32_t hash = hash_of(static_cast<uint64_t>(static_cast<int64_t>(word) >> 16));
  bool is_home = false;
  for (Record* record = store.bucket(store.bucket_of(hash)); record; record = record->next()) {
    if ((record->object_mark ^ word) >> ignored == 0) {
      free_record(shard, record);
      if (planted(Planted::kTraceFreed)) shard.tally.freed--;
      return true;
    }
    is_home |= hash_of(record->object()) % kHomes == hash % kHomes;
  }
  // As long as there are so few buckets, all such records are in one chain.
  if (!is_home && store.buckets <= kHomes) {
    homes_[hash % kHomes].fetch_and(shard.others, std::memory_order_relaxed);
  }
  return false;
}

// Whoever has been given the object sees the bit of the shard that has its record.
void TraceTable::note_not_leak(uint64_t object) {
  if (!holds(object)) return;
  const uint32_t hash = hash_of(object);
  for (uint32_t left = home(hash); left != 0; left &= left - 1) {
    Shard& shard = shards_[std::countr_zero(left)];
    Guard guard(shard.lock);
    Record* record = shard.store.bucket(shard.store.bucket_of(hash));
    while (record && record->object() != object) record = record->next();
    if (!record) continue;
    record->next_stamp |= TraceRecord::kNotLeak;
    return;
  }
}

void TraceTable::count_unmatched(uint32_t cpu) {
  Shard& shard = shard_of(cpu);
  Guard guard(shard.lock);
  shard.tally.unmatched++;
}

void TraceTable::drop(uint32_t cpu) {
  Shard& shard = shard_of(cpu);
  Guard guard(shard.lock);
  shard.tally.dropped++;
}

void TraceTable::free_record(Shard& shard, Record* record) NO_THREAD_SAFETY_ANALYSIS {
  Store& store = shard.store;
  Record*& head = store.bucket(store.bucket_of(hash_of(record->object())));
  if (head == record) {
    head = record->next();
  } else {
    Record* before = head;
    while (before->next() != record) before = before->next();
    before->set_next(record->next());
  }
  count_freed(shard, record);
}

void TraceTable::leave(uint16_t owner, Leave how) {
  for (Shard& shard : shards_) {
    const ProbesOff no_hit;
    Guard guard(shard.lock);
    visit_records(shard.store, [&](Record& record, Large*) NO_THREAD_SAFETY_ANALYSIS {
      if (record.mark() != owner) return;
      if (how == Leave::kKeep) {
        record.object_mark = word_of(record.object(), 0);
      } else {
        free_record(shard, &record);
        shard.tally.freed--;
        shard.tally.cleared++;
      }
    });
  }
}

void TraceTable::shorten(Shard& shard, Record& record, Large* large,
                         uint64_t size) NO_THREAD_SAFETY_ANALYSIS {
  if (size >= kLargeSize) {  // then it was large before
    large->size = size;
    return;
  }
  shard.tally.live_bytes -= record.size - size;
  record.size = static_cast<uint32_t>(size);
}

// Interrupts are off from the old record to the new one: the sweeper may have asked for those of
// the new one's shard before, and not yet of the old one's.
bool TraceTable::cut(uint64_t address, uint64_t size, uint16_t owner, Moved moved) {
  const uint64_t end = address + size;
  bool any = false;
  for (Shard& shard : shards_) {
    // Ranges of one process have nothing in common, so one at most goes on behind the end.
    TraceEvent behind = {};
    const ProbesOff no_hit;
    {
      Guard guard(shard.lock);
      visit_records(shard.store, [&](Record& record, Large* large) NO_THREAD_SAFETY_ANALYSIS {
        if (record.mark() != owner) return;
        const uint64_t from = record.object(), to = from + (large ? large->size : record.size);
        if (to <= address || from >= end) return;
        any = true;
        if (to > end) {
          if (moved) moved(record.stack, record.context);
          behind = {.object = end,
                    .size = to - end,
                    .stack = record.stack,
                    .context = record.context,
                    .time = record.milliseconds(),
                    .cpu = static_cast<uint16_t>(record.cpu()),
                    .truncated = false};
        }
        if (from < address) {
          shorten(shard, record, large, address - from);
        } else {
          free_record(shard, &record);
        }
      });
    }
    if (behind.object != 0) record(behind, owner);
  }
  if (any) return true;
  Shard& shard = shards_[0];
  const ProbesOff no_hit;
  Guard guard(shard.lock);
  shard.tally.unmatched++;
  return false;
}

void TraceTable::clear() {
  for (Shard& shard : shards_) {
    Store old;
    {
      const ProbesOff no_hit;
      Guard guard(shard.lock);
      std::swap(old, shard.store);
      shard.clears++;
      shard.tally.cleared += shard.live();
      shard.tally.live_bytes = 0;
    }
    old.release();
  }
}

// Most shards have no records, and those that come into one now are new.
TraceTable::Names::Place TraceTable::Names::first(Shard& shard) NO_THREAD_SAFETY_ANALYSIS {
  if (!__atomic_load_n(&shard.store.pages, __ATOMIC_RELAXED)) return {nullptr, 0, 0};
  const ProbesOff no_hit;
  Guard guard(shard.lock);
  return {shard.store.pages, 0, shard.clears};
}

// Of the next kAtOnce records those that are in use. What was cleared meanwhile names nothing.
size_t TraceTable::Names::take(Shard& shard, Place& place, Name (&names)[kAtOnce]) {
  const ProbesOff no_hit;
  Guard guard(shard.lock);
  if (place.clears != shard.clears) place.page = nullptr;
  size_t count = 0;
  for (size_t left = kAtOnce; place.page && left > 0; left--) {
    if (place.index == place.page->used) {
      place.page = place.page->next;
      place.index = 0;
      continue;
    }
    const Record& record = place.page->records[place.index++];
    if (record.used()) names[count++] = {record.stack, record.context};
  }
  return count;
}

void TraceTable::Names::mark(StoreMark& mark) {
  Name names[kAtOnce];
  for (Shard& shard : table_.shards_) {
    Place place = first(shard);
    while (place.page) {
      const size_t count = take(shard, place, names);
      for (size_t i = 0; i < count; i++) {
        mark.stack(names[i].stack);
        mark.context(names[i].context);
      }
    }
  }
}

bool TraceTable::copy_shard(unsigned index, TraceRecord* records, size_t capacity, size_t* count,
                            TraceCounters* counters) {
  Shard& shard = shards_[index];
  const ProbesOff no_hit;
  Guard guard(shard.lock);
  if (*count + shard.live() > capacity) return false;
  visit_copies(shard.store, [&](const TraceRecord& copy) { records[(*count)++] = copy; });
  *counters += shard.counters();
  return true;
}

SampleWeight TraceTable::estimate(const TraceCounters& counters) {
  if (options_.sample == 0) {
    return {counters.live_bytes << SampleWeight::kShift, counters.live() << SampleWeight::kShift};
  }
  SampleSum sum(options_.sample);
  for (Shard& shard : shards_) {
    const ProbesOff no_hit;
    Guard guard(shard.lock);
    visit_copies(shard.store, [&](const TraceRecord& copy) { sum.add(copy.size()); });
  }
  return sum.sum();
}

TraceCounters TraceTable::counters() {
  TraceCounters sum = {};
  for (Shard& shard : shards_) {
    const ProbesOff no_hit;
    Guard guard(shard.lock);
    sum += shard.counters();
  }
  return sum;
}
