#include "trace/record/table.h"

#include <bit>
#include <new>
#include <utility>

#include "core/planted.h"
#include "core/probe_guard.h"
#include "intern/trace_memory.h"

TraceTable::TraceTable(unsigned shards) : shard_count_(shards) {
  for (unsigned i = 0; i < shards; i++) {
    Shard* const shard = new (first_shard() + i) Shard;
    shard->bit = uint64_t{1} << i;
  }
}

TraceTable* TraceTable::create(unsigned cpus) {
  trace_memory_prepare();
  const size_t size = size_of(cpus);
  void* memory = size == kPageSize ? trace_page_take() : trace_block_take(size);
  // The first hook has a stack and a context to store, so it should find the pool full.
  for (uint32_t i = 0; i <= kSparePages; i++) trace_memory_prepare();
  return memory ? new (memory) TraceTable(cpus) : nullptr;
}

// The table stays a user of its numbers until no snapshot can be opened any more: a sweep would
// otherwise free numbers that a new snapshot finds in the records.
void TraceTable::destroy(TraceTable* table) {
  table->clear();
  {
    Guard guard(table->turn_lock_);
    table->ended_ = true;
    table->turn_.wake_all();
  }
  if (table->names_.is_user()) trace_users_drop(table->names_);
  leave(table);
}

void TraceTable::leave(TraceTable* table) {
  {
    Guard guard(table->turn_lock_);
    if (--table->users_ > 0) return;
  }
  const size_t size = size_of(table->shard_count_);
  if (table->frees_) FreeCounts::destroy(table->frees_);
  table->~TraceTable();
  if (!planted(Planted::kTraceTable)) trace_block_free(table, size);
}

void TraceTable::set_options(const TraceOptions& options) {
  options_ = options;
  depth_ = StackDepth(options.depth);
  sample_step_ = options.sample == 0 ? 0 : sample_step(options.sample);
  filters_ = options.min_size > 0 || options.max_size < TraceOptions::kAnySize || options.pid != 0;
  selects_ = filters_ || sample_step_ != 0;
  passing_weight_ = filters_ ? 1 : 0;
  passing_step_ = filters_ ? Sampler::kAlways : static_cast<int64_t>(sample_step_);
  counts_frees_.store(options.frees, std::memory_order_relaxed);
  for (Shard& shard : all_shards()) {
    const ProbesOff no_hit;
    Guard guard(shard.lock);
    shard.counts_frees = options.frees;
    shard.update_lock();
  }
}

bool TraceTable::make_free_counts() {
  if (frees_) return true;
  FreeCounts* const counts = FreeCounts::create(shard_count_);
  const RetainingStopped stopped;
  frees_ = counts;
  return counts;
}

// If has_few_ is set, the hook of frees (trace_free in hooks.cc) tests homes_ first. With more than
// kHomes records, most words of homes_ have a bit set, and the test would seldom help.
void TraceTable::set_running(bool runs) {
  running.store(runs, std::memory_order_relaxed);
  has_few_ = selects_ || (!runs && counters().live <= kHomes);
}

void TraceTable::seed_samplers(uint64_t seed) {
  for (Shard& shard : all_shards()) {
    if (!shard.sampler.seeded()) shard.sampler.seed(seed++);
  }
}

TraceCounters TraceTable::Shard::counters() const {
  TraceCounters sum = {};
#define READ(name) sum.name = __atomic_load_n(&tally.name, __ATOMIC_RELAXED);
  ABI_TRACEDUMP_COUNTERS(READ, READ, ABI_TRACEDUMP_NO_COUNTER)
#undef READ
  sum.seen = sum.recorded + sum.dropped + sum.filtered;
  sum.live = live();
  sum.unmatched += tally.cut_nothing;
  return sum;
}

// --- Records in a shard.

[[gnu::always_inline]] inline TraceTable::Record* TraceTable::Shard::take(bool fresh) {
  Record* const record = fresh ? store.take_record() : store.take_free_record();
  if (record && snapshot.number != 0) [[unlikely]] {
    RecordPage* const page = RecordPage::of(record);
    page->note_newer(static_cast<uint32_t>(record - page->records), snapshot.number);
  }
  return record;
}

// A hook that reuses the record stores object_mark before size, and visit_standing() may read the
// record in between. So the size of a free record must not be kLarge.
void TraceTable::Shard::give_back(Record* record) {
  if (record->is_large()) {
    auto* const large = reinterpret_cast<Record*>(record->large());
    record->object_mark = 0;
    std::atomic_signal_fence(std::memory_order_release);
    record->size = 0;
    store.give_back(large);
  }
  store.give_back(record);
}

void TraceTable::Shard::retire(Record* record) {
  if (record->is_large()) {
    larges--;
    update_lock();
  }
  if (snapshot.number == 0 || is_newer(record)) return give_back(record);
  record->hold(snapshot.held);
  snapshot.held = record;
}

TraceTable::Record* TraceTable::changeable(Shard& shard, Record* record) {
  if (shard.snapshot.number == 0 || shard.is_newer(record)) return record;
  Record* const copy = shard.take(true);
  if (!copy) return nullptr;
  Record* const large = record->is_large() ? shard.take(true) : nullptr;
  if (record->is_large() && !large) {
    shard.store.give_back(copy);
    return nullptr;
  }
  const uint64_t word = record->object_mark;
  copy->stack_time = record->stack_time;
  copy->size = record->size;
  copy->names_time = record->names_time;
  copy->next_stamp = record->next_stamp;
  if (large) {
    copy->set_large(new (large) Large(*record->large()));
    shard.larges++;
  }
  std::atomic_signal_fence(std::memory_order_release);
  copy->object_mark = word;
  replace(shard.store, record, copy);
  shard.retire(record);
  copies_.fetch_add(1, std::memory_order_release);
  return copy;
}

void TraceTable::replace(Store& store, Record* record, Record* other) {
  Record*& head = store.bucket(store.bucket_of(hash_of(record->object())));
  if (head == record) {
    head = other;
    return;
  }
  Record* before = head;
  while (before->next() != record) before = before->next();
  before->set_next(other);
}

void TraceTable::free_record(Shard& shard, Record* record) {
  replace(shard.store, record, record->next());
  shard.tally.freed++;
  shard.tally.bytes -= record->bytes();
  shard.retire(record);
}

// Stores object_mark, which marks the record as used, last: visit_standing() may read the record at
// any time.
[[gnu::always_inline]] inline void TraceTable::put_record(Shard& shard, Record* record,
                                                          const TraceEvent& event, Large* large,
                                                          uint64_t word) {
  const uint32_t hash = hash_of(event.object);
  Store& store = shard.store;
  Tally& tally = shard.tally;
  tally.recorded++;
  tally.bytes += event.size;
  tally.stacks_lost += event.stack == StackId::kNone || event.user_stack_lost;
  tally.contexts_lost += event.context == ContextId::kNone;
  tally.truncated += event.truncated;
  if ((home(hash) & shard.bit) == 0)
    homes_[hash % kHomes].fetch_or(shard.bit, std::memory_order_relaxed);
  Record*& head = store.bucket(store.bucket_of(hash));
  record->next_stamp = reinterpret_cast<uint64_t>(head) << 16 | cpu_stamp(event.cpu, event.time);
  const uint64_t names =
      number_of(event.context) | static_cast<uint64_t>(caller_with(event.user_stack));
  record->set_names(number_of(event.stack), names, event.time.value);
  if (large) [[unlikely]] {
    record->set_large(large);
    std::atomic_signal_fence(std::memory_order_release);
    record->size = Store::kLarge;
  } else {
    record->size = static_cast<uint32_t>(event.size);
  }
  std::atomic_signal_fence(std::memory_order_release);
  record->object_mark = word;
  head = record;
}

[[gnu::always_inline]] inline bool TraceTable::record_in(Shard& shard, const TraceEvent& event,
                                                         uint64_t word, bool fresh) {
  if (event.size >= kLargeSize) [[unlikely]]
    return record_large_in(shard, event, word, fresh);
  Record* const record = shard.take(fresh);
  if (record) put_record(shard, record, event, nullptr, word);
  return record;
}

void TraceTable::record_rest(Shard& shard, const TraceEvent& event, uint64_t word) {
  if (!record_in(shard, event, word, true)) shard.tally.dropped++;
}

void TraceTable::record(const TraceEvent& event) {
  record_marked(event, static_cast<uint16_t>(mark()));
}

void TraceTable::record(const TraceEvent& event, TraceOwner owner) {
  record_marked(event, static_cast<uint16_t>(owner));
}

void TraceTable::record_marked(const TraceEvent& event, uint16_t mark_or_owner) {
  if (!holds(event.object)) return drop(event.cpu);
  const uint64_t word = TraceRecord::word_of(event.object, mark_or_owner);
  Shard& own = shard_of(event.cpu);
  bool done, tend;
  {
    Guard guard(own.lock);
    done = record_in(own, event, word, true);
    tend = own.store.tend;
  }
  if (tend) [[unlikely]]
    tend_directory(own);
  if (!done && !record_in_any(event, word)) drop(event.cpu);
}

bool TraceTable::record_in_any(const TraceEvent& event, uint64_t word) {
  for (Shard& shard : all_shards()) {
    const TryGuard guard(shard.lock);
    if (!guard) continue;
    shard.lock.known_held();
    if (record_in(shard, event, word, false)) return true;
  }
  return false;
}

[[gnu::noinline, gnu::cold]] bool TraceTable::record_large_in(Shard& shard, const TraceEvent& event,
                                                              uint64_t word, bool fresh) {
  Record* const place = event.size <= kMaxSize ? shard.take(fresh) : nullptr;
  if (!place) return false;
  Record* const record = shard.take(fresh);
  if (!record) {
    shard.store.give_back(place);
    return false;
  }
  auto* const large = new (place)
      Large{event.size,
            number_of(event.context) | static_cast<uint64_t>(caller_with(event.user_stack)), 0, 0};
  put_record(shard, record, event, large, word);
  shard.larges++;
  shard.update_lock();
  return true;
}

void TraceTable::forget(uint64_t object, CpuId cpu, StackId freed_by) {
  if (!holds(object)) return count_unmatched(cpu);
  Shard& own = shard_of(cpu);
  if (!own.lock.is_closed() && forget_in_others(object, own)) return;
  forget_word(TraceRecord::word_of(object, 0), TraceRecord::kMarkBits, cpu, freed_by);
}

// Takes about 30 instructions for a shard that does not have the record.
bool TraceTable::forget_in_others(uint64_t object, Shard& own) {
  const uint32_t hash = hash_of(object);
  for (uint64_t left = home(hash) & ~own.bit; left != 0; left &= left - 1) {
    const auto index = static_cast<uint64_t>(std::countr_zero(left));
    Shard& other = shard_at(index);
    if (!other.lock.lock_in_hook()) return false;
    const bool done = drop_record(other, hash, object);
    if (done && planted(Planted::kTraceFreed)) other.tally.freed--;
    other.lock.unlock_in_hook();
    if (!done) continue;
    own.other.store(static_cast<uint32_t>(index), std::memory_order_relaxed);
    return true;
  }
  return false;
}

// Fast path: the record is the first of its chain in the CPU's own shard, and the shard's lock is
// free.
bool TraceTable::forget_of(TraceOwner owner, uint64_t object, CpuId cpu) {
  if (!holds(object)) [[unlikely]] {
    count_unmatched(cpu);
    return false;
  }
  const uint64_t word = TraceRecord::word_of(object, owner);
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
  return forget_word(word, 0, cpu, StackId::kNone);
}

// The freeing CPU has received the object from the allocating CPU, and so sees the bit that the
// allocating CPU has set in homes_.
bool TraceTable::forget_word(uint64_t word, unsigned ignored, CpuId cpu, StackId freed_by) {
  Shard& own = shard_of(cpu);
  const uint64_t object = TraceRecord::object_of(word);
  if (forget_in(own, word, ignored, cpu, freed_by)) return true;
  for (uint64_t left = home(hash_of(object)) & ~own.bit; left != 0; left &= left - 1) {
    const auto index = static_cast<uint32_t>(std::countr_zero(left));
    if (!forget_in(first_shard()[index], word, ignored, cpu, freed_by)) continue;
    own.other.store(index, std::memory_order_relaxed);
    return true;
  }
  count_unmatched(cpu);
  return false;
}

bool TraceTable::forget_in(Shard& shard, uint64_t word, unsigned ignored, CpuId cpu,
                           StackId freed_by) {
  Guard guard(shard.lock);
  Store& store = shard.store;
  const uint32_t hash = hash_of(TraceRecord::object_of(word));
  bool is_home = false;
  for (Record* record = store.bucket(store.bucket_of(hash)); record; record = record->next()) {
    if ((record->object_mark ^ word) << ignored == 0) {
      if (shard.counts_frees) frees_->count(record->stack(), freed_by, cpu);
      free_record(shard, record);
      if (planted(Planted::kTraceFreed)) shard.tally.freed--;
      return true;
    }
    is_home |= hash_of(record->object()) % kHomes == hash % kHomes;
  }
  // With at most kHomes buckets, this chain has all records of the shard that share this word of
  // homes_. If the loop has found none of them, the shard's bit is stale.
  if (!is_home && store.buckets <= kHomes) {
    homes_[hash % kHomes].fetch_and(~shard.bit, std::memory_order_relaxed);
  }
  return false;
}

// The caller has received the object from the allocating CPU, and so sees the bit that the
// allocating CPU has set in homes_.
void TraceTable::note_not_leak(uint64_t object) {
  if (!holds(object)) return;
  trace_memory_prepare();  // changeable() may need a page for a copy
  const uint32_t hash = hash_of(object);
  for (uint64_t left = home(hash); left != 0; left &= left - 1) {
    Shard& shard = first_shard()[std::countr_zero(left)];
    Guard guard(shard.lock);
    Record* record = shard.store.bucket(shard.store.bucket_of(hash));
    while (record && !record->is_of(object)) record = record->next();
    if (!record) continue;
    Record* const changed = changeable(shard, record);
    (changed ? changed : record)->next_stamp |= Record::kNotLeak;
    return;
  }
}

// Changes a record even if a snapshot needs it unchanged, because no dump shows owners.
bool TraceTable::reown(TraceOwner from, uint64_t object, TraceOwner to) {
  if (!holds(object)) return false;
  const uint64_t word = TraceRecord::word_of(object, from);
  const uint32_t hash = hash_of(object);
  for (uint64_t left = home(hash); left != 0; left &= left - 1) {
    Shard& shard = first_shard()[std::countr_zero(left)];
    Guard guard(shard.lock);
    Record* record = shard.store.bucket(shard.store.bucket_of(hash));
    while (record && record->object_mark != word) record = record->next();
    if (!record) continue;
    record->object_mark = TraceRecord::word_of(object, to);
    return true;
  }
  return false;
}

bool TraceTable::find(uint64_t object, TraceRecord& found) {
  if (!holds(object)) return false;
  const uint32_t hash = hash_of(object);
  for (uint64_t left = home(hash); left != 0; left &= left - 1) {
    Shard& shard = first_shard()[std::countr_zero(left)];
    Guard guard(shard.lock);
    const Record* record = shard.store.bucket(shard.store.bucket_of(hash));
    while (record && record->object() != object) record = record->next();
    if (!record) continue;
    found = copy_of(*record);
    return true;
  }
  return false;
}

void TraceTable::drop(CpuId cpu) {
  Shard& shard = shard_of(cpu);
  Guard guard(shard.lock);
  shard.tally.dropped++;
}

bool TraceTable::drop_if_full(CpuId cpu) {
  Shard& own = shard_of(cpu);
  for (Shard& shard : all_shards()) {
    if (&shard == &own) continue;
    const TryGuard guard(shard.lock);
    if (!guard) return false;
    shard.lock.known_held();
    if (shard.store.free) return false;
  }
  Guard guard(own.lock);
  if (own.store.free || own.store.has_fresh()) return false;
  own.tally.dropped++;
  return true;
}
