// The outstanding objects of one cache, each with a record of where it came from.
//
// A table has 16 shards, each with its own lock and counters; a CPU records in its own, or, without
// memory, in one that has a record to spare. So CPUs that free what they have allocated have no
// line in common that either writes. Who frees an object finds its record in its own shard, mostly;
// if not, `homes_` says where to look: a word for each of a few hundred values of the hash, with a
// bit for each shard that may have records with it. A shard's bits are set, before the first such
// record is, and cleared, by who looks for an object in vain and sees that there is none, under its
// lock. They change seldom, so that all CPUs can have them in their caches.
//
// A shard is a hash table that grows by linear hashing with chains
// (Litwin, "Linear Hashing: A New Tool for File and Table Addressing", VLDB 1980; Larson, "Dynamic
// Hash Tables", CACM 1988): for each record more than ever before one bucket is split, so that no
// single operation pays for a rehash and chains stay about one record long. The links lie inside
// the records. Where an object goes is decided by the high bits of its address times an odd
// constant (Knuth, vol. 3, 6.4): objects of one cache differ in few, regular bits, and only the
// high bits of the product depend on all of them.
//
// A shard begins with a few buckets of its own, whose places in the first segment stay empty, and
// then takes pages: of records, of buckets (512 a segment), and one directory of segments, which
// ends the growth at 262,144 buckets a shard; beyond that chains get longer: with a million records
// of one CPU they have four, and a pair takes 10 to 20 instructions more. When there is no memory
// for buckets the chains get longer too; when there is none for a record, the record is dropped and
// counted. Freed records are used again in the shard. A record of 2 GiB or more takes the place of
// two: another says how large it is.
//
// Two identities hold in each shard whenever its lock is free:
//   seen = recorded + dropped + filtered        recorded = freed + cleared + live
// A hook counts neither `seen` nor `live`, which follow; who asks gets them added up under the
// lock. Cost for each record: 32 bytes, a quarter for the page header, about 8 for its bucket.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "arch/x86_64/time.h"
#include "core/cpu.h"
#include "core/probe_guard.h"
#include "core/spinlock.h"
#include "lib/units.h"
#include "store/shared_tables.h"
#include "store/stack_scope.h"
#include "trace/sampler.h"
#include "trace/trace.h"
#include "trace/trace_options.h"

// One outstanding object, copied out of a table. What a dump consists of.
class TraceRecord {
 public:
  uint64_t object() const {
    return static_cast<uint64_t>(static_cast<int64_t>(object_mark_) >> 16);
  }
  uint32_t mark() const { return object_mark_ & 0xffff; }
  uint64_t size() const { return size_cpu_ >> 16; }  // bytes asked for
  uint32_t cpu() const { return size_cpu_ & kCpu; }  // that it was allocated on
  // The kernel has declared that the object stays.
  bool not_leak() const { return (size_cpu_ & kNotLeak) != 0; }
  // Coarse, since boot, at its allocation.
  uint64_t milliseconds() const { return uint64_t{high_milliseconds()} << 32 | time_; }

  // The halves of milliseconds(), of which the lower one can be had at once. The upper one changes
  // every seven weeks.
  uint32_t low_milliseconds() const { return time_; }
  uint32_t high_milliseconds() const {
    return static_cast<uint32_t>((size_cpu_ & kHighTime) >> kStampCpuBits);
  }

  // StackTable; 0: not recorded. The first may be a pair, and stand for both, until it is split
  // (trace_copy.h).
  uint32_t stack, user_stack;
  uint32_t context;  // ContextTable, 0: not recorded

 private:
  friend class TraceTable;
  static constexpr uint64_t kCpu = (1u << kStampCpuBits) - 1, kNotLeak = 1u << kStampBits,
                            kHighTime = (kNotLeak - 1) & ~kCpu;
  uint32_t time_;  // the lower half; the rest lies between CPU and kNotLeak
  uint64_t object_mark_, size_cpu_;
};
static_assert(sizeof(TraceRecord) == 32);

// What happened to a table since it was made. Every field is a sum over the shards.
struct TraceCounters {
  uint64_t seen, recorded, dropped, filtered;
  uint64_t freed, cleared;
  uint64_t unmatched;   // frees without a record
  uint64_t live_bytes;  // asked for, of the records that are live
  uint64_t stacks_lost, contexts_lost, truncated;

  uint64_t live() const { return recorded - freed - cleared; }
  TraceCounters& operator+=(const TraceCounters& other);
};

// An allocation.
struct TraceEvent {
  uint64_t object;  // not 0
  uint64_t size;
  uint32_t stack;  // or a pair
  uint32_t context;
  uint64_t time;  // coarse milliseconds
  uint16_t cpu;
  bool truncated;  // the stack, or that of the user, was deeper than what was recorded
  bool user_stack_lost = false;  // beside that of the kernel
};

class TraceTable {
  static constexpr uint32_t kLarge = 1u << 31;

  // An outstanding object.
  struct Record {
    bool used() const { return object_mark != 0; }
    bool is_large() const { return size >= kLarge; }
    uint64_t object() const {
      return static_cast<uint64_t>(static_cast<int64_t>(object_mark) >> 16);
    }
    uint32_t mark() const { return object_mark & 0xffff; }
    uint32_t cpu() const { return next_stamp & TraceRecord::kCpu; }
    bool not_leak() const { return (next_stamp & TraceRecord::kNotLeak) != 0; }
    // The lowest bit of the stamp's epoch is the highest of the time; if it is not, the CPU had not
    // seen the epoch change.
    uint64_t milliseconds() const {
      const uint64_t epoch = (next_stamp & ((1u << kStampBits) - 1)) >> kStampCpuBits;
      const uint64_t seen = epoch + ((epoch & 1) ^ time >> kEpochShift);
      return seen >> 1 << 32 | time;
    }

    Record* next() const {
      return reinterpret_cast<Record*>(static_cast<int64_t>(next_stamp) >> 16);
    }
    void set_next(Record* next) {
      next_stamp = reinterpret_cast<uint64_t>(next) << 16 | (next_stamp & 0xffff);
    }
    // Of a free one, which needs nothing else there.
    Record* next_free() const { return reinterpret_cast<Record*>(next_stamp); }
    void set_next_free(Record* next) { next_stamp = reinterpret_cast<uint64_t>(next); }

    uint32_t stack;
    uint32_t size;  // bytes asked for; with kLarge the number of the Large that says how many
    uint32_t time;  // coarse milliseconds, the lower half
    uint32_t context;
    // Addresses are canonical: 48 bits say everything, and leave 16 for a neighbour. Mark or owner;
    // the CPU and the upper part of the time (cpu_stamp), and above these whether it is no leak.
    uint64_t object_mark;
    uint64_t next_stamp;
  };
  static_assert(sizeof(Record) == 32);

  // The first member, so that a hook need not add its place to an index.
  static constexpr uint32_t kHomes = 256;
  std::atomic<uint16_t> homes_[kHomes] = {};

 public:
  static constexpr unsigned kShards = 16;
  static_assert(kShards <= 16, "a bit for each in homes_");
  static constexpr uint32_t kMaxMark = UINT16_MAX;

  TraceTable();
  // Without memory nullptr. Takes one page; no tracer lock held.
  static TraceTable* create();
  // No hook uses it any more. No tracer lock held.
  static void destroy(TraceTable* table);

  // What the control side keeps here: only changed under the control lock, read by hooks.
  std::atomic<uint32_t> mark{0};
  std::atomic<bool> running{false};

  // What it is of, and the next in the list of report.cc, by which a panic finds it whatever was
  // going on.
  TraceSource source;
  std::atomic<TraceTable*> next_started{nullptr};

  // What it holds of stacks and contexts: those of its records.
  StoreHolder& names() { return names_; }

  // The same. Hooks of allocations meet none that is being changed: nothing is recorded then.
  const TraceOptions& options() const { return options_; }
  void set_options(const TraceOptions& options) {
    options_ = options;
    scope_ = StackScope::callers(options.depth);
    sample_step_ = options.sample == 0 ? 0 : sample_step(options.sample);
    selects_ = options.min_size > 0 || options.max_size < TraceOptions::kAnySize ||
               options.pid != 0 || sample_step_ != 0;
  }
  // Whether an allocation may be unwanted: there is a filter, or it is sampled.
  bool selects() const { return selects_; }
  // What is recorded of a stack.
  StackScope scope() const { return scope_; }
  // What a byte takes from a CPU's countdown; 0 when the trace is not sampled.
  uint64_t step() const { return sample_step_; }

  // Whether a record can hold the number of an object: 48 bits, the highest of which is repeated
  // above, as in any address. Numbers of arenas that hand out something else need not be so.
  static constexpr bool holds(uint64_t object) {
    return static_cast<uint64_t>(static_cast<int64_t>(object << 16) >> 16) == object;
  }

  // Sizes that a record can hold: 48 bits. One of kLargeSize or more goes the general way.
  static constexpr uint64_t kLargeSize = kLarge;
  static constexpr uint64_t kMaxSize = (uint64_t{1} << 48) - 1;

  // `cpu` is the caller's, here and below.

  // Counts an allocation that is not wanted. Any context but NMI; takes kTraceShard. Bound: a few
  // instructions.
  void filter(uint32_t cpu);
  // Records an allocation, or counts that it could not be: there is no memory, or a record cannot
  // hold the object. Any context but NMI, after
  // trace_memory_prepare(); takes kTraceShard. Bound: the split of one bucket (two for a large
  // one), or one look at each shard.
  void record(const TraceEvent& event);
  // The same, with interrupts off, if that takes no waiting and no memory; false, with nothing
  // done, if it does. `stack` and `context` are known; with kFlag the stack was deeper. A record
  // can hold `object`, and `size` is below kLargeSize. `stamp` is that of the CPU (Cpu::stamp).
  // Bound: some 50 instructions.
  static constexpr uint64_t kFlag = uint64_t{1} << 32;
  [[gnu::always_inline]] bool record_at_once(uint64_t object, uint64_t size, uint64_t stack,
                                             uint32_t context, uint32_t stamp) {
    return record_at_once(object, size, stack, context, stamp,
                          [this] { return mark.load(std::memory_order_relaxed); });
  }
  template <typename MarkOrOwner>
  [[gnu::always_inline]] bool record_at_once(uint64_t object, uint64_t size, uint64_t stack,
                                             uint32_t context, uint32_t stamp,
                                             MarkOrOwner mark_or_owner) NO_THREAD_SAFETY_ANALYSIS {
    const uint32_t hash = hash_of(object);
    Shard& shard = shard_of(stamp);
    Store& store = shard.store;
    if (!shard.lock.lock_in_hook()) [[unlikely]]
      return false;
    Record* const record = store.free;
    if (!record || (home(hash) & shard.bit) == 0) [[unlikely]] {
      shard.lock.unlock_in_hook();
      return false;
    }
    store.free = record->next_free();
    shard.tally.recorded++;
    shard.tally.live_bytes += size;
    if ((stack & kFlag) != 0) [[unlikely]]
      shard.tally.truncated++;
    Record*& head = store.bucket(store.bucket_of(hash));
    record->object_mark = object << 16 | mark_or_owner();
    record->next_stamp = reinterpret_cast<uint64_t>(head) << 16 | stamp;
    record->stack = static_cast<uint32_t>(stack);
    record->size = static_cast<uint32_t>(size);
    record->time = static_cast<uint32_t>(coarse_milliseconds());
    asm("" : "+m"(record->time));  // two words are stored sooner than one is put together
    record->context = context;
    head = record;
    shard.lock.unlock_in_hook();
    return true;
  }
  // Drops the record of an object that is being freed, or counts that there was none. Any context
  // but NMI; takes kTraceShard. Bound: a chain of each shard that may have it, mostly one.
  void forget(uint64_t object, uint32_t cpu);
  // The same, with interrupts off, unless it would have to wait or look elsewhere: false, with
  // nothing done.
  [[gnu::always_inline]] bool forget_at_once(uint64_t object,
                                             uint32_t cpu) NO_THREAD_SAFETY_ANALYSIS {
    const uint32_t hash = hash_of(object);
    Shard& shard = shard_of(cpu);
    if (!shard.lock.lock_in_hook()) [[unlikely]]
      return false;
    bool done = drop_record(shard, hash, object);
    if (!done && (home(hash) & shard.others) == 0) {
      shard.tally.unmatched++;
      done = true;
    }
    shard.lock.unlock_in_hook();
    return done;
  }
  // Notes in the object's record, if it has one, that the object stays. Any context but NMI; takes
  // kTraceShard. Bound: a chain of each shard that may have it.
  void note_not_leak(uint64_t object);
  // For probes on programs, whose objects are known by a process too: an object of `owner`, a PID,
  // is another than that of another process at the same address. The owner stands where else the
  // mark does. With interrupts off; the same bounds.
  void record(const TraceEvent& event, uint16_t owner);
  // False if there was none, which is counted.
  bool forget_of(uint16_t owner, uint64_t object, uint32_t cpu);
  // Counts an allocation that could not be followed.
  void drop(uint32_t cpu);
  // The process is no more. Its records stay, as nobody's, or are cleared. Interrupts are off for
  // one pass over the records of a shard, here and in cut().
  enum class Leave : uint8_t { kKeep, kClear };
  void leave(uint16_t owner, Leave how);
  // Ranges of memory, whole pages, of which a record says how many bytes were asked for (so its end
  // is in the last page): gives back what of `owner`'s lies in `size` bytes, whole pages, from
  // `address` on. What is left before it of a range is a shorter one, what is left behind it is
  // recorded anew, and `moved` is told which stack and context the new record has of the old. False
  // if there was none, which is counted.
  using Moved = void (*)(uint32_t stack, uint32_t context);
  bool cut(uint64_t address, uint64_t size, uint16_t owner, Moved moved = nullptr);
  // Drops all records (they become `cleared`). No tracer lock held; each shard's lock is held for a
  // few instructions.
  void clear();

  // One shard at one moment: adds its counters to `counters` and appends copies of its live records
  // to records[*count…]. False, with nothing done, if there are more than `capacity` in all then.
  // Interrupts are off for one pass over the shard's records.
  bool copy_shard(unsigned shard, TraceRecord* records, size_t capacity, size_t* count,
                  TraceCounters* counters);
  // Interrupts are off for one pass over the large records of a shard.
  TraceCounters counters();
  // What the live records stand for; if the trace is not sampled, `counters` say it. Interrupts are
  // off for one pass over the records of a shard.
  SampleWeight estimate(const TraceCounters& counters);
  // Calls visit(copy) for each live record of a shard, with its lock held and interrupts off;
  // false, with nothing done, if the lock is not free. Any context.
  template <typename Visit>
  bool try_visit(unsigned shard, Visit visit);
  // The same without the lock, while every other CPU stands still, wherever it was: in the middle
  // of a change by whoever has the lock, of which a record may be missing, or have size, stack and
  // context of what it was before. Any context.
  template <typename Visit>
  void visit_standing(unsigned shard, Visit visit);

 private:
  static constexpr uint32_t kFirstBuckets = 4;
  static constexpr uint32_t kSegmentBuckets = kPageSize / sizeof(Record*);
  static constexpr uint32_t kMaxSegments = kPageSize / sizeof(void*);
  static constexpr uint32_t kMaxBuckets = kSegmentBuckets * kMaxSegments;

  // How large a record is. It lies where another record would, says that it is none (`unused` is
  // 0), and holds as long as its record is in use and has its number. So freeing a large record, or
  // filling it anew, need not know of it: a Large that does not hold any more stays in the list
  // until the sweep comes by. Numbers are bits of addresses: two that are equal lie 64 GiB apart.
  struct Large {
    uint64_t size;
    Record* record;
    uint64_t unused;
    Large* next;

    uint32_t number() const {
      return kLarge | static_cast<uint32_t>(reinterpret_cast<uint64_t>(this) / sizeof(Record));
    }
    bool holds() const { return record->used() && record->size == number(); }
  };
  static_assert(sizeof(Large) == sizeof(Record));

  struct RecordPage {
    static constexpr uint32_t kRecords = (kPageSize - 16) / sizeof(Record);
    RecordPage* next;
    uint64_t used;  // records that have ever been in use
    Record records[kRecords];
  };
  static_assert(sizeof(RecordPage) <= kPageSize);
  using Segment = Record* [kSegmentBuckets];

  // All that a shard has of records; clear() takes it away in one piece.
  struct Store {
    Record* first[kFirstBuckets] = {};
    Record* free = nullptr;
    Segment** directory = nullptr;
    uint32_t buckets = kFirstBuckets;
    uint32_t mask =
        2 * kFirstBuckets - 1;  // 2^(n+1) - 1, where 2^n is the highest bit of `buckets`
    RecordPage* pages =
        nullptr;             // the newest first; only that may have records that were never in use
    uint64_t records = 0;    // that have ever been in use: not fewer than are live
    Large* large = nullptr;  // the newest first
    Large* swept = nullptr;  // the last of them that the sweep has kept

    Record*& bucket(uint32_t index) {
      if (index < kFirstBuckets) return first[index];
      return (*directory[index / kSegmentBuckets])[index % kSegmentBuckets];
    }
    uint32_t bucket_of(uint32_t hash) const {
      const uint32_t index = hash & mask;
      return index < buckets ? index : index & mask >> 1;
    }
    // One that was freed, or a fresh one, with which a bucket is added; nullptr without memory.
    Record* take_record() {
      Record* record = take_free_record();
      return record ? record : take_fresh_record();
    }
    Record* take_free_record() {
      Record* record = free;
      if (record) free = record->next_free();
      return record;
    }
    Record* take_fresh_record();
    // For the size of a record; nullptr without memory. Bound: kSweep large ones and the split of a
    // bucket.
    Large* take_large(bool fresh);
    // Looks at the next kSweep of the large ones, and gives back what does not hold any more. Each
    // new one sweeps two, so at most as many are stale as hold.
    static constexpr int kSweep = 2;
    void sweep_large();
    void give_back(Record* record) {
      record->object_mark = 0;
      record->set_next_free(free);
      free = record;
    }
    void grow();
    void release();
  };

  // What is counted of a shard, first what changes with every record; `seen` and what is live
  // follow from it.
  struct Tally {
    uint64_t recorded, freed;
    uint64_t live_bytes;  // of a large one its number; counters() adds the rest
    uint64_t dropped, filtered, cleared, unmatched;
    uint64_t stacks_lost, contexts_lost, truncated;
  };

  // Two lines are all that a hook touches of it.
  struct alignas(64) Shard {
    Store store GUARDED_BY(lock);
    Spinlock lock{LockRank::kTraceShard};
    uint16_t bit = 0, others = 0;          // its own in a word of homes_, and all but it
    uint32_t clears GUARDED_BY(lock) = 0;  // how often the store was taken away
    Tally tally GUARDED_BY(lock) = {};

    TraceCounters counters() const REQUIRES(lock);
    uint64_t live() const REQUIRES(lock) { return tally.recorded - tally.freed - tally.cleared; }
  };

  // Asked by the sweeper. A shard's pages of records are gone through a few records at a time; the
  // pages that come meanwhile are new, and what is new need not be marked.
  class Names final : public StoreHolder {
   public:
    explicit Names(TraceTable& table) : table_(table) {}
    void mark(StoreMark& mark) override;

   private:
    static constexpr size_t kAtOnce = 64;
    struct Name {
      uint32_t stack, context;
    };
    // Where the next ones are; nullptr at the end, or where the pages have been taken away.
    struct Place {
      const RecordPage* page;
      uint64_t index;
      uint32_t clears;
    };
    static Place first(Shard& shard);
    static size_t take(Shard& shard, Place& place, Name (&names)[kAtOnce]);

    TraceTable& table_;
  };

  // Takes the record of an object out of the shard, whose lock is held; false if there is none.
  [[gnu::always_inline]] static bool drop_record(Shard& shard, uint32_t hash,
                                                 uint64_t object) NO_THREAD_SAFETY_ANALYSIS {
    Record*& head = shard.store.bucket(shard.store.bucket_of(hash));
    Record* record = head;
    if (record && record->object() == object) [[likely]] {
      head = record->next();
    } else {
      if (!record) return false;
      asm("" : "+r"(record));  // what goes on here is not begun before
      Record* before = record;
      while ((record = before->next())) {
        if (record->object() == object) [[unlikely]]
          break;
        before = record;
        asm("" : "+r"(before));  // in one register
      }
      if (!record) return false;
      asm("" : "+m"(before->next_stamp));  // read again: to keep it would be an instruction a round
      before->set_next(record->next());
    }
    count_freed(shard, record);
    return true;
  }
  // It is in no chain any more.
  [[gnu::always_inline]] static void count_freed(Shard& shard,
                                                 Record* record) NO_THREAD_SAFETY_ANALYSIS {
    shard.tally.freed++;
    shard.tally.live_bytes -= record->size;
    record->object_mark = 0;
    record->set_next_free(shard.store.free);
    shard.store.free = record;
  }

  // Records an allocation, without memory, in a shard in which there is a record that was freed;
  // false if there is none.
  bool record_in_any(const TraceEvent& event, uint64_t word);
  // Records an allocation in the shard, whose lock is held, if it has a record; one that was freed,
  // unless `fresh` ones may be taken too. The second is for large ones.
  bool record_in(Shard& shard, const TraceEvent& event, uint64_t word, bool fresh);
  bool record_large_in(Shard& shard, const TraceEvent& event, uint64_t word, bool fresh);
  void put_record(Shard& shard, Record* record, const TraceEvent& event, uint32_t size,
                  uint64_t word) NO_THREAD_SAFETY_ANALYSIS;
  // What is left of a range is its first `size` bytes. `large` is the record's, if it has one. The
  // shard's lock is held.
  static void shorten(Shard& shard, Record& record, Large* large, uint64_t size);
  static uint64_t word_of(uint64_t object, uint16_t owner) { return object << 16 | owner; }
  // Takes a record out of its chain and counts it as freed. It is in the shard, whose lock is held.
  static void free_record(Shard& shard, Record* record);
  // Calls visit(record, large) for each record in use, which it may free; `large` says how large it
  // is, or is nullptr. Of a shard whose lock is held. One pass over the records, then one over the
  // large ones.
  template <typename Visit>
  static void visit_records(const Store& store, Visit visit);
  template <typename Visit>
  static void visit_copies(const Store& store, Visit visit);

  // Takes the record with this word, of which the lowest `ignored` bits do not matter, out of
  // whatever shard it is in. Or counts that there is none: false.
  bool forget_word(uint64_t word, unsigned ignored, uint32_t cpu);
  bool forget_in(unsigned index, uint64_t word, unsigned ignored);
  void count_unmatched(uint32_t cpu);

  // The bytes of the product in reverse, so that the best mixed bits come first.
  static uint32_t hash_of(uint64_t object) {
    return static_cast<uint32_t>(__builtin_bswap64(object * 0x9e3779b97f4a7c15));
  }
  Shard& shard_of(uint32_t cpu) {
    Shard* shard = &shards_[cpu % kShards];
    asm("" : "+r"(shard));  // one base for all its fields, not an index for each
    return *shard;
  }
  uint16_t home(uint32_t hash) const {
    return homes_[hash % kHomes].load(std::memory_order_relaxed);
  }

  TraceOptions options_;
  uint64_t sample_step_ = 0;
  bool selects_ = false;
  StackScope scope_;
  Names names_{*this};
  Shard shards_[kShards];
};
static_assert(sizeof(TraceTable) <= kPageSize);

// The list of pages is whole at every moment, and what is used of them has been filled in
// (take_fresh_record).
template <typename Visit>
void TraceTable::visit_standing(unsigned index, Visit visit) NO_THREAD_SAFETY_ANALYSIS {
  visit_copies(shards_[index].store, visit);
}

template <typename Visit>
void TraceTable::visit_records(const Store& store, Visit visit) {
  for (RecordPage* page = store.pages; page; page = page->next) {
    for (uint64_t i = 0; i < page->used; i++) {
      Record& record = page->records[i];
      if (record.used() && !record.is_large()) visit(record, nullptr);
    }
  }
  for (Large* large = store.large; large; large = large->next) {
    if (large->holds()) visit(*large->record, large);
  }
}

template <typename Visit>
void TraceTable::visit_copies(const Store& store, Visit visit) {
  visit_records(store, [&](const Record& record, const Large* large) {
    TraceRecord copy;
    copy.stack = record.stack;
    copy.user_stack = 0;
    copy.context = record.context;
    copy.time_ = record.time;
    copy.object_mark_ = record.object_mark;
    copy.size_cpu_ = (large ? large->size : record.size) << 16 |
                     (record.next_stamp & TraceRecord::kNotLeak) |
                     record.milliseconds() >> 32 << kStampCpuBits | record.cpu();
    visit(static_cast<const TraceRecord&>(copy));
  });
}

template <typename Visit>
bool TraceTable::try_visit(unsigned index, Visit visit) NO_THREAD_SAFETY_ANALYSIS {
  Shard& shard = shards_[index];
  const ProbesOff no_hit;
  const TryGuard guard(shard.lock);
  if (!guard) return false;
  visit_copies(shard.store, visit);
  return true;
}
