// The outstanding objects of one cache, each with a record of its allocation.
//
// A table has a shard for each CPU, with a lock and counters of its own. A CPU records in its own
// shard, or, when out of memory, in any shard with a free record. So CPUs that free their own
// allocations share no cache line that either writes. A freeing CPU usually finds the record in its
// own shard; otherwise `homes_` names the shards to search. It has a word for each of a few hundred
// hash values, with a bit for each shard that may have such records. The CPU first searches the
// shard where it found the last such record: a CPU that frees objects of others usually does so for
// one other CPU. A shard's bit is set before its first record with the hash value appears. A CPU
// that searches a shard in vain and finds no record with the hash value clears the bit under the
// shard's lock. The words change seldom, so all CPUs can cache them.
//
// A shard is a hash table that grows by linear hashing with chains (Litwin, "Linear Hashing: A New
// Tool for File and Table Addressing", VLDB 1980; Larson, "Dynamic Hash Tables", CACM 1988): nearly
// each record beyond the previous maximum splits one bucket. So no single operation pays for a
// rehash, and chains are about one record long. The links lie inside the records. The hash of an
// object is taken from the high bits of its address times an odd constant (Knuth, vol. 3, 6.4):
// addresses of one cache differ in few, regular bits, and only the high bits of the product depend
// on all of them.
//
// A shard begins with a few embedded buckets and then takes pages: of records, of buckets (512 in a
// segment), and from the second segment on for a directory of segments, which is replaced by larger
// ones (table_store.cc). Without memory for buckets the chains get longer; without memory for a
// record the record is dropped and counted. A shard reuses its freed records. An object of 2 GiB or
// more takes two records: the second holds the size.
//
// A shard's lock can be closed to hooks (HookLock). They then use the slow path, which alone
// handles large records and snapshots (snapshot.h). No walk over all records holds the lock
// throughout: walks proceed in slices and keep their position in between. A clear() makes them
// restart.
//
// Two identities hold in each shard whenever its lock is free:
//   seen = recorded + dropped + filtered        recorded = freed + cleared + live
// Hooks do not count `seen` and `live`; readers compute them under the lock. A record costs 32
// bytes, plus a quarter for the page header and 7.5 for its buckets.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "arch/x86_64/paging.h"
#include "arch/x86_64/time.h"
#include "core/cpu.h"
#include "core/hook_lock.h"
#include "core/probe_guard.h"
#include "core/sleep.h"
#include "lib/optimizer.h"
#include "lib/units.h"
#include "store/shared_tables.h"
#include "store/stack_scope.h"
#include "trace/sampler.h"
#include "trace/trace.h"
#include "trace/trace_counters.h"
#include "trace/trace_options.h"
#include "trace/trace_record.h"

class TraceSnapshot;

class alignas(64) TraceTable {
  static constexpr uint32_t kLarge = 1u << 31;
  // The second part of a record whose size has more than 31 bits. It takes the memory of a record,
  // and `unused` is 0 to show that it is none. A shard with such records is closed to hooks, so
  // that each free handles them.
  struct Large {
    uint64_t size;
    uint32_t time, context;  // of the record
    uint64_t unused;
    uint64_t next;  // at the link of a free record
  };

  // An outstanding object.
  struct Record {
    bool used() const { return object_mark != 0; }
    bool is_large() const { return size == kLarge; }
    uint64_t object() const { return TraceRecord::object_of(object_mark); }
    uint32_t mark() const { return TraceRecord::mark_of(object_mark); }
    bool is_owned_by(TraceOwner owner) const { return mark() == static_cast<uint32_t>(owner); }
    bool is_of(uint64_t object) const {
      return (object_mark ^ object) << TraceRecord::kMarkBits == 0;
    }
    uint32_t cpu() const { return next_stamp & TraceRecord::kCpu; }
    bool not_leak() const { return (next_stamp & TraceRecord::kNotLeak) != 0; }
    uint64_t bytes() const { return is_large() ? large()->size : size; }
    uint32_t context_id() const { return is_large() ? large()->context : context; }
    // The lowest bit of the stamp's epoch equals the highest of `low`, unless the CPU had not seen
    // the last change of the epoch.
    static uint64_t milliseconds(uint64_t stamp, uint32_t low) {
      const uint64_t epoch = (stamp & ((1u << kStampBits) - 1)) >> kStampCpuBits;
      const uint64_t seen = epoch + ((epoch & 1) ^ low >> kEpochShift);
      return seen >> 1 << 32 | low;
    }
    uint64_t milliseconds() const {
      return milliseconds(next_stamp, is_large() ? large()->time : time);
    }
    Large* large() const { return reinterpret_cast<Large*>(uint64_t{context} << 32 | time); }
    void set_large(Large* large) {
      time = static_cast<uint32_t>(reinterpret_cast<uint64_t>(large));
      context = static_cast<uint32_t>(reinterpret_cast<uint64_t>(large) >> 32);
    }

    Record* next() const {
      return reinterpret_cast<Record*>(static_cast<int64_t>(next_stamp) >> 16);
    }
    void set_next(Record* next) {
      next_stamp = reinterpret_cast<uint64_t>(next) << 16 | (next_stamp & 0xffff);
    }
    // Out of its chain, and kept for a snapshot. Records are aligned, so a link has spare bits,
    // which are 0 in a chain.
    bool is_held() const { return (next_stamp & kHeld) != 0; }
    void hold(Record* next) {
      set_next(next);
      next_stamp |= kHeld;
    }
    Record* next_held() const {
      return reinterpret_cast<Record*>(static_cast<int64_t>(next_stamp & ~kHeld) >> 16);
    }
    static constexpr uint64_t kHeld = 1u << 16;
    // The link of a free record, which needs no stamp.
    Record* next_free() const { return reinterpret_cast<Record*>(next_stamp); }
    void set_next_free(Record* next) { next_stamp = reinterpret_cast<uint64_t>(next); }

    uint32_t stack;
    uint32_t size;  // requested bytes; kLarge: see Large, to which the next two point then
    uint32_t time;  // coarse milliseconds, the lower half
    uint32_t context;
    // Canonical addresses need 48 bits and leave 16 for something else. Beside the object: mark or
    // owner, see TraceRecord::word_of(). Beside the link: the CPU and the upper part of the time
    // (cpu_stamp), and above these the flag kNotLeak.
    uint64_t object_mark;
    uint64_t next_stamp;
  };
  static_assert(sizeof(Record) == 32 && sizeof(Large) == 32);

  // The first member, so that a hook need not add an offset to its index.
  static constexpr uint32_t kHomes = 256;
  std::atomic<uint64_t> homes_[kHomes] = {};

 public:
  static_assert(kMaxCpus <= 64, "a bit for each in homes_");
  static constexpr uint32_t kMaxMark = UINT16_MAX;
  // The most records that are visited with interrupts off.
  static constexpr uint32_t kSlice = 64;

  explicit TraceTable(unsigned shards);
  // For CPUs 0 to `cpus` - 1; one page for up to six. nullptr when out of memory. No tracer lock
  // held.
  static TraceTable* create(unsigned cpus);
  // Ends a table that no hook uses any more. Memory that a snapshot of it needs stays until that is
  // closed. No tracer lock held.
  static void destroy(TraceTable* table);

  // One for each CPU.
  unsigned shards() const { return shard_count_; }

  // Changed only under the control lock, read by hooks.
  uint32_t mark() const { return TraceRecord::mark_of(mark_.load(std::memory_order_relaxed)); }
  void set_mark(uint32_t mark) {
    mark_.store(TraceRecord::word_of(0, mark), std::memory_order_relaxed);
  }
  // Every CPU sees the change before this returns.
  void next_mark() { mark_.fetch_add(TraceRecord::word_of(0, 1), std::memory_order_seq_cst); }
  std::atomic<bool> running{false};
  void set_running(bool runs);

  // The source of the trace, and the next table in the list of started.cc, which a panic can walk
  // at any time.
  TraceSource source;
  std::atomic<TraceTable*> next_started{nullptr};

  // Holds the stacks and contexts of the table's records.
  StoreHolder& names() { return names_; }

  // Changed only while nothing is recorded, so that hooks of allocations see no change half-way.
  const TraceOptions& options() const { return options_; }
  void set_options(const TraceOptions& options);
  // Starts the sampling countdowns unless they have started. The seed is the time, so that a run
  // that is repeated instruction by instruction takes the same samples. Same condition.
  void seed_samplers(uint64_t seed);
  // True if some allocations are not recorded: there is a filter, or the trace is sampled.
  bool selects() const { return selects_; }
  bool filters() const { return filters_; }
  // True if most freed objects may have no record: the trace selects, or is stopped with few
  // records.
  bool has_few() const { return has_few_; }
  // The recorded part of each stack.
  StackScope scope() const { return scope_; }
  // RecentStack's key for a stack with that top.
  uint64_t key_of(uint64_t top) const { return top + scope_word_; }
  // The amount that a byte takes from a countdown; 0 if the trace is not sampled.
  uint64_t step() const { return sample_step_; }
  // True if sampling takes an allocation of `size` bytes, which is not 0; always true if the trace
  // is not sampled. With interrupts off, without a lock.
  bool samples(uint64_t size, uint64_t cpu) {
    return sample_step_ == 0 || shard_of(cpu).sampler.take(size, sample_step_);
  }
  // For a trace that selects: if there is no filter and sampling skips the allocation, counts it
  // and returns true; otherwise does nothing. With interrupts off, without a lock.
  [[gnu::always_inline]] bool passes_over(uint64_t size, uint64_t cpu);

  // True if a record can hold the object's number: 48 bits, sign-extended, as in a canonical
  // address. Numbers from an arena that does not hand out addresses may differ.
  static constexpr bool holds(uint64_t object) {
    return static_cast<uint64_t>(static_cast<int64_t>(object << 16) >> 16) == object;
  }

  // Sizes that a record can hold: 48 bits. Those from kLargeSize on take the general path.
  static constexpr uint64_t kLargeSize = kLarge;
  static constexpr uint64_t kMaxSize = (uint64_t{1} << 48) - 1;

  // A record of a reference has the reference's number as address and this as size: the place in
  // the direct map of the object that it refers to, in units of 8 bytes. 0 for an object elsewhere,
  // or more than 16 GiB above the start of the direct map.
  static uint64_t place_of(const void* object) {
    const uint64_t place = direct_map_phys(object).value / kPlaceUnit;
    return place < kLargeSize ? place : 0;
  }

  // `cpu` is the calling CPU, here and below.

  // Counts an allocation that is not wanted. With interrupts off, without a lock.
  void filter(uint64_t cpu) { shard_of(cpu).count_filtered(); }
  // Records an allocation, or counts it as dropped if there is no memory or a record cannot hold
  // the object. Any context but NMI, after trace_memory_prepare(); takes kTraceShard. Bound: the
  // split of one bucket (two for a large one), or one search of each shard.
  void record(const TraceEvent& event);
  // The same, with interrupts off, if that needs no waiting and no memory; otherwise false, with
  // nothing done. `stack` and `context` are known; `stack` may have kStackTruncated. A record can
  // hold `object`, and `size` is below kLargeSize. `stamp` is that of the CPU (Cpu::stamp). Bound:
  // some 50 instructions.
  [[gnu::always_inline]] bool record_at_once(uint64_t object, uint64_t size, uint64_t stack,
                                             uint32_t context, uint32_t stamp) {
    return record_at_once(object, size, stack, context, stamp, [this] { return mark(); });
  }
  template <typename MarkOrOwner>
  [[gnu::always_inline]] bool record_at_once(uint64_t object, uint64_t size, uint64_t stack,
                                             uint32_t context, uint32_t stamp,
                                             MarkOrOwner mark_or_owner) {
    return record_known(
        object, size, stamp & TraceRecord::kCpu,
        [mark_or_owner](uint64_t word) { return TraceRecord::word_of(word, mark_or_owner()); },
        [stack] { return stack; }, [context] { return context; },
        [stamp](uint64_t link) { return link | stamp; });
  }
  // The same with functions that are called for each value where it is stored, because a hook has
  // few registers. marked(object) and stamped(link) combine two fields of a word.
  template <typename Marked, typename Stack, typename Context, typename Stamped>
  [[gnu::always_inline]] bool record_known(uint64_t object, uint64_t size, uint64_t cpu,
                                           Marked marked, Stack stack, Context context,
                                           Stamped stamped);
  // The word of an object with the current mark.
  uint64_t marked(uint64_t object) const {
    asm volatile("xorq %1, %0" : "+r"(object) : "m"(mark_));
    return object;
  }
  // Drops the record of an object that is being freed, or counts that there was none. Any context
  // but NMI; takes kTraceShard. Bound: a chain of each shard that may have it, usually one.
  void forget(uint64_t object, uint32_t cpu);
  // The same, with interrupts off, unless it would have to wait or search other shards: then false,
  // with nothing done.
  [[gnu::always_inline]] bool forget_at_once(uint64_t object, uint64_t cpu);
  // For an object whose record is not in the CPU's own shard: searches the shard where the last
  // such record was found, and drops the record if it is there. Otherwise false, with nothing done.
  // With interrupts off. Bound: one chain.
  [[gnu::always_inline]] bool forget_elsewhere(uint64_t object, uint64_t cpu);
  // True if no shard has a record with the hash of an object that is being freed. Takes no lock;
  // with interrupts off.
  [[gnu::always_inline]] bool has_none(uint64_t object) const;
  // Counts the free of an object without a record.
  void count_unmatched(uint64_t cpu) { first_shard()[cpu].count_unmatched(); }
  // Marks the object's record, if there is one, as no leak. Any context but NMI; takes kTraceShard.
  // Bound: a chain of each shard that may have it.
  void note_not_leak(uint64_t object);
  // Copies the record of an object; false if it has none. The context of note_not_leak().
  bool find(uint64_t object, TraceRecord& found);
  // For probes on programs. Their objects are identified by address and `owner`, a PID, since other
  // processes use the same addresses. The owner takes the place of the mark. With interrupts off;
  // the same bounds.
  void record(const TraceEvent& event, TraceOwner owner);
  // False if there was no record, which is counted.
  bool forget_of(TraceOwner owner, uint64_t object, uint32_t cpu);
  // Changes the owner of the object's record; false if there is none. The bounds of
  // note_not_leak().
  bool reown(TraceOwner from, uint64_t object, TraceOwner to);
  // Counts an allocation that could not be followed.
  void drop(uint32_t cpu);
  // The process has ended: keeps its records, without an owner, or clears them. Works in slices, as
  // cut(). Task context.
  enum class Leave : uint8_t { kKeep, kClear };
  void leave(TraceOwner owner, Leave how);
  // For ranges of memory, which are whole pages; a record has the requested bytes, so its end lies
  // in the last page. Removes `size` bytes, whole pages, from `address` on from the owner's ranges.
  // The rest of a range before them stays, shortened; the rest behind them gets a new record. False
  // if there was no such range, which is counted.
  bool cut(uint64_t address, uint64_t size, TraceOwner owner);
  // Drops all records (they become `cleared`). No tracer lock held.
  void clear();
  // Gives back the record memory of empty shards. The same context.
  void trim();

  // Sums over the shards, each at its moment.
  TraceCounters counters();
  // The estimate that the live records represent; taken from `counters` if the trace is not
  // sampled. In slices.
  SampleWeight estimate(const TraceCounters& counters);
  // Calls visit(const TraceRecord&) for each record that refers to a stack or context: live ones,
  // and those held for a snapshot. visit() runs with interrupts on and no lock held; records are
  // copied in slices of kSlice, with interrupts off. A record that exists throughout the walk is
  // visited at least once; one that appears or disappears meanwhile may be missed. If a record is
  // copied to another meanwhile, the walk restarts, so that the copy counts as existing throughout.
  // The caller keeps the table alive.
  template <typename Visit>
  void visit_slices(Visit visit);
  // Calls visit(copy) for each live record of a shard, with its lock held and interrupts off, in
  // slices. Between these the shard may change, but the held control lock prevents that it is
  // emptied. False, with nothing done, if the shard's lock is not free at the beginning. Any
  // context.
  template <typename Visit>
  bool try_visit(unsigned shard, Visit visit);
  // The same without the lock, while every other CPU is stopped. A stopped CPU may be in the middle
  // of a change: the record concerned may be missing, or have the old size, stack and context. Any
  // context.
  template <typename Visit>
  void visit_standing(unsigned shard, Visit visit);
  // The same for references, with no CPU stopped in a hook: calls visit(number, object or 0, stack
  // or pair).
  template <typename Visit>
  void visit_references(Visit visit);

 private:
  friend class TraceSnapshot;
  static constexpr uint32_t kFirstBuckets = 4;
  static constexpr uint32_t kSegmentBuckets = kPageSize / sizeof(Record*);
  static constexpr uint32_t kMaxBuckets = uint32_t{1} << 30;
  // One record more for so many buckets: saves half a byte for each record.
  static constexpr uint32_t kExtraRecords = 16;

  struct RecordPage {
    static constexpr uint32_t kRecords = 127;
    RecordPage* next;
    uint64_t newer[2];  // a bit for each record that is newer than the snapshot …
    uint32_t snapshot;  // … with this number; invalid if another one is open, or none
    uint32_t used;      // records that have ever been in use
    Record records[kRecords];

    static RecordPage* of(const Record* record) {
      return reinterpret_cast<RecordPage*>(reinterpret_cast<uint64_t>(record) & ~(kPageSize - 1));
    }
    bool is_newer(uint32_t slot, uint32_t number) const {
      return snapshot == number && (newer[slot / 64] >> slot % 64 & 1) != 0;
    }
    void note_newer(uint32_t slot, uint32_t number) {
      if (snapshot != number) newer[0] = newer[1] = 0;
      snapshot = number;
      newer[slot / 64] |= uint64_t{1} << slot % 64;
    }
  };
  static_assert(sizeof(RecordPage) == kPageSize);
  // A segment's address minus the offset of its first bucket's index, so that a bucket is found by
  // its full index.
  using Segment = Record**;
  struct DirectoryHeader;

  // The records of a shard.
  struct Store {
    Record* first[kFirstBuckets] = {};
    Record* free = nullptr;
    Segment* directory = &only;
    Segment only = first;  // if there is only one
    uint32_t buckets = kFirstBuckets;
    // 2^(n+1) - 1 and 2^n - 1, where 2^n is the highest bit of `buckets`.
    uint32_t mask = 2 * kFirstBuckets - 1, half_mask = kFirstBuckets - 1;
    uint32_t records = 0;         // ever in use: at least as many as are live
    RecordPage* pages = nullptr;  // newest first; only the first may have unused records
    bool tend = false;            // tend_directory() is due, when the lock is free

    Record*& bucket(uint32_t index) { return directory[index / kSegmentBuckets][index]; }
    // The same for a hook, which reads and writes it without computing its address.
    struct Bucket {
      Segment segment;
      uint64_t index;
      Record* head() const { return segment[index]; }
      void set_head(Record* record) {
        hide_value(index);  // traced, free_after_stop: an address would be made of both
        segment[index] = record;
      }
    };
    Bucket bucket_in_hook(uint32_t hash) const {
      const uint32_t index = bucket_of(hash);
      return {directory[index / kSegmentBuckets], index};
    }
    uint32_t bucket_of(uint32_t hash) const {
      const uint32_t index = hash & mask;
      // Equally likely.
      if (__builtin_expect_with_probability(index < buckets, 1, 0.5)) return index;
      return index & half_mask;
    }
    // A freed record, or a fresh one together with a new bucket; nullptr when out of memory.
    Record* take_record() {
      Record* record = take_free_record();
      return record ? record : take_fresh_records();
    }
    Record* take_free_record() {
      Record* record = free;
      if (record) free = record->next_free();
      return record;
    }
    Record* take_fresh_records();
    Record* take_fresh_record();
    void give_back(Record* record) {
      record->object_mark = 0;
      record->set_next_free(free);
      free = record;
    }
    void grow();
    static Segment segment_of(void* page, uint32_t index) {
      return reinterpret_cast<Segment>(reinterpret_cast<uint64_t>(page) - index * kPageSize);
    }
    static void* page_of(Segment segment, uint32_t index) {
      return reinterpret_cast<void*>(reinterpret_cast<uint64_t>(segment) + index * kPageSize);
    }
    bool add_segment();
    bool add_first_segment();
    void copy_segments(uint32_t segments);
    // Moves everything to `other` and resets this.
    void move_to(Store& other);
    // Frees everything except the pages from `kept` on.
    void release(const RecordPage* kept);
  };

  // A shard's counters, those that change with every record first.
  struct Tally {
    ABI_TRACEDUMP_COUNTERS(ABI_TRACEDUMP_COUNTER, ABI_TRACEDUMP_NO_COUNTER,
                           ABI_TRACEDUMP_NO_COUNTER)
    ABI_TRACEDUMP_COUNTERS(ABI_TRACEDUMP_NO_COUNTER, ABI_TRACEDUMP_COUNTER,
                           ABI_TRACEDUMP_NO_COUNTER)
    uint64_t cut_nothing;  // cut() that found no record
  };
  // Increments a counter in one instruction.
  static void count(uint64_t& counter) { asm("addq $1, %0" : "+m"(counter)); }

  // A shard's state for an open snapshot.
  struct Moment {
    uint32_t number = 0;          // of the snapshot; 0: none
    bool owns = false;            // the snapshot owns `pages`: the shard has been emptied since
    RecordPage* pages = nullptr;  // the newest at that moment
    Record* held = nullptr;       // freed since then
  };

  // A hook touches only two cache lines of it.
  struct alignas(64) Shard {
    Store store GUARDED_BY(lock);
    HookLock lock{LockRank::kTraceShard};
    uint64_t bit = 0;  // the shard's bit in a word of homes_
    Tally tally GUARDED_BY(lock) = {};
    Moment moment GUARDED_BY(lock);
    uint32_t larges GUARDED_BY(lock) = 0;      // live large records
    uint32_t generation GUARDED_BY(lock) = 0;  // of the store; clear() changes it
    // The shard where the CPU has found the last record that was not in its own.
    std::atomic<uint32_t> other{0};
    Sampler sampler;  // used only by the CPU

    // Called by the shard's CPU with interrupts off, without the lock; so they are not analysed.
    void count_filtered() NO_THREAD_SAFETY_ANALYSIS { count(tally.filtered); }
    void count_unmatched() NO_THREAD_SAFETY_ANALYSIS { count(tally.unmatched); }

    TraceCounters counters() const REQUIRES(lock);
    uint64_t live() const REQUIRES(lock) { return tally.recorded - tally.freed - tally.cleared; }
    // For a record that is, or was, in a chain.
    bool is_newer(const Record* record) const REQUIRES(lock) {
      const RecordPage* page = RecordPage::of(record);
      return page->is_newer(static_cast<uint32_t>(record - page->records), moment.number);
    }
    // A freed record; with `fresh` also one that was never in use. nullptr when out of memory.
    Record* take(bool fresh) REQUIRES(lock);
    // Frees a record that is not in a chain any more.
    void give_back(Record* record) REQUIRES(lock);
    // The same; a record that is older than the snapshot is held until that is closed.
    void retire(Record* record) REQUIRES(lock);
    // Closes the lock to hooks while they have to use the slow path.
    void update_lock() REQUIRES(lock) { lock.set_closed(moment.number != 0 || larges != 0); }
  };
  // The part that hooks use.
  static_assert(sizeof(Store) + sizeof(HookLock) + 4 * sizeof(uint64_t) <= 128);

  // Marks stacks and contexts for the sweeper.
  class Names final : public StoreHolder {
   public:
    explicit Names(TraceTable& table) : table_(table) {}
    void mark(StoreMark& mark) override;

   private:
    TraceTable& table_;
  };

  // Removes the record of an object from the shard, whose lock is held; false if there is none.
  [[gnu::always_inline]] static bool drop_record(Shard& shard, uint32_t hash, uint64_t object)
      REQUIRES(shard.lock);
  // For an object without a record in the CPU's own shard: if homes_ shows that no other shard has
  // one, counts that and returns true.
  [[gnu::always_inline]] bool none_elsewhere(Shard& shard, uint64_t object) REQUIRES(shard.lock);
  // Frees a record that is not in a chain any more.
  [[gnu::always_inline]] static void count_freed(Shard& shard, Record* record) REQUIRES(shard.lock);

  void record_marked(const TraceEvent& event, uint16_t mark_or_owner);
  // When out of memory: records an allocation in any shard with a freed record; false if there is
  // none.
  bool record_in_any(const TraceEvent& event, uint64_t word);
  // Records an allocation in the shard, whose lock is held, if it has a freed record, or with
  // `fresh` also an unused one.
  bool record_in(Shard& shard, const TraceEvent& event, uint64_t word, bool fresh)
      REQUIRES(shard.lock);
  bool record_large_in(Shard& shard, const TraceEvent& event, uint64_t word, bool fresh)
      REQUIRES(shard.lock);
  // Records the rest of a cut range in this shard, or counts it as dropped.
  void record_rest(Shard& shard, const TraceEvent& event, uint64_t word) REQUIRES(shard.lock);
  void put_record(Shard& shard, Record* record, const TraceEvent& event, Large* large,
                  uint64_t word) REQUIRES(shard.lock);
  // Takes a record of the shard, whose lock is held, out of its chain and counts it as freed.
  static void free_record(Shard& shard, Record* record) REQUIRES(shard.lock);
  // Makes the predecessor of a record in its chain point to `other` instead.
  static void replace(Store& store, Record* record, Record* other);
  // The record to be changed: `record` itself, or a copy that replaces it if a snapshot needs
  // `record` unchanged. nullptr when out of memory.
  Record* changeable(Shard& shard, Record* record) REQUIRES(shard.lock);
  // Shortens a range to its first `size` bytes.
  static void shorten(Shard& shard, Record* record, uint64_t size) REQUIRES(shard.lock);
  // Removes the part of a range between `from` and `to`.
  void cut_record(Shard& shard, Record* record, uint64_t from, uint64_t to) REQUIRES(shard.lock);
  // The same for the owner's range that begins at `from`, if it reaches `to`.
  bool cut_first(uint64_t from, uint64_t to, TraceOwner owner);

  struct Walk;
  // Calls visit(record), which may free it, for each live record of the shard: slice by slice, with
  // its lock held. Restarts if the shard is emptied meanwhile.
  template <typename Visit>
  static void walk(Shard& shard, Visit visit);
  TraceRecord copy_of(const Record& record) const;
  static constexpr uint64_t kPlaceUnit = 8;
  static uint64_t object_at(uint64_t place);  // the inverse of place_of(); 0 for 0
  // Fetches a larger directory for the shard, or gives back the smaller one. The context of
  // record(); no tracer lock held.
  static void tend_directory(Shard& shard);

  // Removes the record with this word, except for its highest `ignored` bits, from its shard. False
  // if there is none, which is counted.
  bool forget_word(uint64_t word, unsigned ignored, uint32_t cpu);
  bool forget_in(Shard& shard, uint64_t word, unsigned ignored);

  // The product with its bytes reversed, so that the best mixed bits are the lowest.
  static uint32_t hash_of(uint64_t object) {
    uint64_t hash = __builtin_bswap64(object * kHashFactor);
    hide_value(hash);  // traced: one value for all uses, instead of the product and parts of it
    return static_cast<uint32_t>(hash);
  }
  static constexpr uint64_t kHashFactor = 0x9e3779b97f4a7c15;
  static_assert(kHomes == 1 << 8, "has_none()");
  Shard* first_shard() { return reinterpret_cast<Shard*>(this + 1); }
  std::span<Shard> all_shards() { return {first_shard(), shard_count_}; }
  // `cpu` may be a stamp.
  Shard& shard_of(uint64_t cpu) { return shard_at(cpu & TraceRecord::kCpu); }
  Shard& shard_at(uint64_t cpu) { return first_shard()[cpu]; }
  uint64_t home(uint32_t hash) const {
    return homes_[hash % kHomes].load(std::memory_order_relaxed);
  }

  std::atomic<uint64_t> mark_{0};  // as in a record
  TraceOptions options_;
  uint64_t sample_step_ = 0;
  bool selects_ = false, filters_ = false;
  bool has_few_ = true;
  int64_t passing_step_ = 0;  // sample_step_, or kAlways if there is a filter
  StackScope scope_;
  uint64_t scope_word_ = 0;
  const unsigned shard_count_;

  Names names_{*this};

  // The number of records copied to others; a change makes visit_slices() restart.
  std::atomic<uint32_t> copies_{0};

  // Snapshots take turns.
  Spinlock turn_lock_{LockRank::kDevice};
  WaitQueue turn_;
  uint32_t snapshots_ GUARDED_BY(turn_lock_) = 0;  // that have chosen the table
  uint32_t number_ GUARDED_BY(turn_lock_) = 0;     // of the last opened one
  bool taken_ GUARDED_BY(turn_lock_) = false;
  bool ended_ GUARDED_BY(turn_lock_) = false;
  static void free_memory(TraceTable* table);
  static constexpr size_t size_of(unsigned shards);

  // The shards follow.
};

constexpr size_t TraceTable::size_of(unsigned shards) {
  return align_up(sizeof(TraceTable) + shards * sizeof(Shard), kPageSize);
}

#include "trace/table_hooks.h"  // the inline functions of hooks
#include "trace/table_walk.h"   // the templates
