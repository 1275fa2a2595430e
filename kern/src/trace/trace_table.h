// The outstanding objects of one cache, each with a record of where it came from.
//
// A table has a shard for each CPU, with a lock and counters of its own; a CPU records in its own,
// or, without memory, in one that has a record to spare. So CPUs that free what they have allocated
// have no line in common that either writes. A CPU that frees an object usually finds its record in
// its own shard; otherwise `homes_` says where to look: a word for each of a few hundred values of
// the hash, with a bit for each shard that may have records with it. Of these the CPU looks first
// where it found the last such record: who frees what others allocate mostly does so for one of
// them, and finds it in one place. A shard's bits are set before
// the first such record is; a CPU that looks for an object in vain, and sees that there is none,
// clears them under the shard's lock. They change seldom, so that all CPUs can have them in their
// caches.
//
// A shard is a hash table that grows by linear hashing with chains
// (Litwin, "Linear Hashing: A New Tool for File and Table Addressing", VLDB 1980; Larson, "Dynamic
// Hash Tables", CACM 1988): for nearly each record more than ever before one bucket is split, so
// that no single operation pays for a rehash and chains stay about one record long. The links lie
// inside the records. Where an object goes is decided by the high bits of its address times an odd
// constant (Knuth, vol. 3, 6.4): objects of one cache differ in few, regular bits, and only the
// high bits of the product depend on all of them.
//
// A shard begins with a few buckets of its own, and then takes pages: of records, of buckets (512 a
// segment), and from the second segment on one for a directory of segments, which is replaced by
// larger ones (table_store.cc). When there is no memory for buckets the chains
// get longer; when there is none for a record, the record is dropped and counted. Freed records are
// used again in the shard. A record of 2 GiB or more takes the place of two: another says how large
// it is.
//
// The lock of a shard can be closed to hooks (HookLock): then they go the long way, which alone
// knows of large records and of snapshots (snapshot.h). Nothing walks over all records with the
// lock held: walks are made of slices, and keep their place in between. A clear() makes them begin
// anew.
//
// Two identities hold in each shard whenever its lock is free:
//   seen = recorded + dropped + filtered        recorded = freed + cleared + live
// A hook counts neither `seen` nor `live`, which follow; who asks gets them added up under the
// lock. Cost for each record: 32 bytes, a quarter for the page header, 7.5 for its buckets.
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
  // What a record has no room for if its size has more than 31 bits. It lies where another record
  // would, and says that it is none: `unused` is 0. A shard with such records is closed to hooks,
  // so whoever frees one knows of it.
  struct Large {
    uint64_t size;
    uint32_t time, context;  // the record's
    uint64_t unused;
    uint64_t next;  // where a record that is free has its link
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
    // The lowest bit of the stamp's epoch is the highest of the time; if it is not, the CPU had not
    // seen the epoch change.
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
    // Out of its chain, and kept for a snapshot. Records are aligned, so a link has bits to spare;
    // in a chain they are 0.
    bool is_held() const { return (next_stamp & kHeld) != 0; }
    void hold(Record* next) {
      set_next(next);
      next_stamp |= kHeld;
    }
    Record* next_held() const {
      return reinterpret_cast<Record*>(static_cast<int64_t>(next_stamp & ~kHeld) >> 16);
    }
    static constexpr uint64_t kHeld = 1u << 16;
    // Of a free one, which needs nothing else there.
    Record* next_free() const { return reinterpret_cast<Record*>(next_stamp); }
    void set_next_free(Record* next) { next_stamp = reinterpret_cast<uint64_t>(next); }

    uint32_t stack;
    uint32_t size;  // bytes asked for; kLarge: see Large, to which the next two point then
    uint32_t time;  // coarse milliseconds, the lower half
    uint32_t context;
    // Addresses are canonical: 48 bits say everything, and leave 16 for a neighbour. Mark or owner,
    // as TraceRecord::word_of() says; the CPU and the upper part of the time (cpu_stamp), and above
    // these whether it is no leak.
    uint64_t object_mark;
    uint64_t next_stamp;
  };
  static_assert(sizeof(Record) == 32 && sizeof(Large) == 32);

  // The first member, so that a hook need not add its place to an index.
  static constexpr uint32_t kHomes = 256;
  std::atomic<uint64_t> homes_[kHomes] = {};

 public:
  static_assert(kMaxCpus <= 64, "a bit for each in homes_");
  static constexpr uint32_t kMaxMark = UINT16_MAX;
  // Records that are looked at, at most, while interrupts are off.
  static constexpr uint32_t kSlice = 64;

  explicit TraceTable(unsigned shards);
  // For CPUs 0 to `cpus` - 1; one page for up to six. Without memory nullptr. No tracer lock held.
  static TraceTable* create(unsigned cpus);
  // No hook uses it any more. What a snapshot of it needs stays until that is closed. No tracer
  // lock held.
  static void destroy(TraceTable* table);

  // One for each CPU.
  unsigned shards() const { return shard_count_; }

  // What the control side keeps here: only changed under the control lock, read by hooks.
  uint32_t mark() const { return TraceRecord::mark_of(mark_.load(std::memory_order_relaxed)); }
  void set_mark(uint32_t mark) {
    mark_.store(TraceRecord::word_of(0, mark), std::memory_order_relaxed);
  }
  // Every CPU sees it before this returns.
  void next_mark() { mark_.fetch_add(TraceRecord::word_of(0, 1), std::memory_order_seq_cst); }
  std::atomic<bool> running{false};
  void set_running(bool runs);

  // What it is of, and the next in the list of report.cc, by which a panic finds it whatever was
  // going on.
  TraceSource source;
  std::atomic<TraceTable*> next_started{nullptr};

  // What it holds of stacks and contexts: those of its records.
  StoreHolder& names() { return names_; }

  // The same. Hooks of allocations meet none that is being changed: nothing is recorded then.
  const TraceOptions& options() const { return options_; }
  void set_options(const TraceOptions& options);
  // Begins the countdowns of sampling, if they have not begun: from the time, so that a run that is
  // repeated instruction by instruction takes the same samples. The same.
  void seed_samplers(uint64_t seed);
  // Whether an allocation may be unwanted: there is a filter, or it is sampled.
  bool selects() const { return selects_; }
  // Whether there is a filter.
  bool filters() const { return filters_; }
  // Whether most objects that are freed may have no record: it selects, or is stopped with few.
  bool has_few() const { return has_few_; }
  // What is recorded of a stack.
  StackScope scope() const { return scope_; }
  // What RecentStack knows a stack with that top by.
  uint64_t key_of(uint64_t top) const { return top + scope_word_; }
  // What a byte takes from a countdown; 0 when the trace is not sampled.
  uint64_t step() const { return sample_step_; }
  // Whether sampling takes an allocation of `size` bytes, which is not 0: always, if the trace is
  // not sampled. With interrupts off, without a lock.
  bool samples(uint64_t size, uint64_t cpu) {
    return sample_step_ == 0 || shard_of(cpu).sampler.take(size, sample_step_);
  }
  // For a trace that selects: whether nothing but sampling decides, and passes over the allocation,
  // which is counted then; otherwise nothing is done. The same.
  [[gnu::always_inline]] bool passes_over(uint64_t size, uint64_t cpu);

  // Whether a record can hold the number of an object: 48 bits, the highest of which is repeated
  // above, as in any address. Numbers of arenas that hand out something else need not be so.
  static constexpr bool holds(uint64_t object) {
    return static_cast<uint64_t>(static_cast<int64_t>(object << 16) >> 16) == object;
  }

  // Sizes that a record can hold: 48 bits. One of kLargeSize or more goes the general way.
  static constexpr uint64_t kLargeSize = kLarge;
  static constexpr uint64_t kMaxSize = (uint64_t{1} << 48) - 1;

  // A record of a reference has its number for an address, and this for a size: where the object
  // that it refers to lies in the direct map, in units of 8 bytes. 0 for what lies elsewhere, or
  // 16 GiB above its beginning.
  static uint64_t place_of(const void* object) {
    const uint64_t place = direct_map_phys(object).value / kPlaceUnit;
    return place < kLargeSize ? place : 0;
  }

  // `cpu` is the caller's, here and below.

  // Counts an allocation that is not wanted. With interrupts off, without a lock.
  void filter(uint64_t cpu) { shard_of(cpu).count_filtered(); }
  // Records an allocation, or counts that it could not be: there is no memory, or a record cannot
  // hold the object. Any context but NMI, after
  // trace_memory_prepare(); takes kTraceShard. Bound: the split of one bucket (two for a large
  // one), or one look at each shard.
  void record(const TraceEvent& event);
  // The same, with interrupts off, if that takes no waiting and no memory; false, with nothing
  // done, if it does. `stack` and `context` are known; `stack` may have kStackTruncated. A record
  // can hold `object`, and `size` is below kLargeSize. `stamp` is that of the CPU (Cpu::stamp).
  // Bound: some 50 instructions.
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
  // The same with what is called for the values where they are stored: a hook has few registers.
  // marked(object) and stamped(link) put two neighbours together.
  template <typename Marked, typename Stack, typename Context, typename Stamped>
  [[gnu::always_inline]] bool record_known(uint64_t object, uint64_t size, uint64_t cpu,
                                           Marked marked, Stack stack, Context context,
                                           Stamped stamped);
  // What is recorded of an object that is marked as those are now.
  uint64_t marked(uint64_t object) const {
    asm volatile("xorq %1, %0" : "+r"(object) : "m"(mark_));
    return object;
  }
  // Drops the record of an object that is being freed, or counts that there was none. Any context
  // but NMI; takes kTraceShard. Bound: a chain of each shard that may have it, mostly one.
  void forget(uint64_t object, uint32_t cpu);
  // The same, with interrupts off, unless it would have to wait or look elsewhere: false, with
  // nothing done.
  [[gnu::always_inline]] bool forget_at_once(uint64_t object, uint64_t cpu);
  // Of an object whose record is not in the CPU's own shard: drops it if the first shard that is
  // looked in has it, which is the one where the last such record was found. Otherwise false, with
  // nothing done. With interrupts off. Bound: one chain.
  [[gnu::always_inline]] bool forget_elsewhere(uint64_t object, uint64_t cpu);
  // Whether no shard has a record with the object's hash, which is seen without a lock. It is being
  // freed, with interrupts off.
  [[gnu::always_inline]] bool has_none(uint64_t object) const;
  // Counts the free of an object without a record.
  void count_unmatched(uint64_t cpu) { first_shard()[cpu].count_unmatched(); }
  // Notes in the object's record, if it has one, that the object stays. Any context but NMI; takes
  // kTraceShard. Bound: a chain of each shard that may have it.
  void note_not_leak(uint64_t object);
  // A copy of the record of an object; false if it has none. The context of note_not_leak().
  bool find(uint64_t object, TraceRecord& found);
  // For probes on programs, whose objects are known by a process too: an object of `owner`, a PID,
  // is another than that of another process at the same address. The owner stands where else the
  // mark does. With interrupts off; the same bounds.
  void record(const TraceEvent& event, TraceOwner owner);
  // False if there was none, which is counted.
  bool forget_of(TraceOwner owner, uint64_t object, uint32_t cpu);
  // From now on the object is another owner's. False if there was none. The bounds of
  // note_not_leak().
  bool reown(TraceOwner from, uint64_t object, TraceOwner to);
  // Counts an allocation that could not be followed.
  void drop(uint32_t cpu);
  // The process is no more. Its records stay, as nobody's, or are cleared. In slices, here and in
  // cut(). Task context.
  enum class Leave : uint8_t { kKeep, kClear };
  void leave(TraceOwner owner, Leave how);
  // Ranges of memory, whole pages, of which a record says how many bytes were asked for (so its end
  // is in the last page): gives back what of `owner`'s lies in `size` bytes, whole pages, from
  // `address` on. What is left before it of a range is a shorter one, what is left behind it is
  // recorded anew. False if there was none, which is counted.
  bool cut(uint64_t address, uint64_t size, TraceOwner owner);
  // Drops all records (they become `cleared`). No tracer lock held.
  void clear();
  // Gives back the memory for records of shards that have none. The same context.
  void trim();

  // Sums over the shards, each at its moment.
  TraceCounters counters();
  // What the live records stand for; if the trace is not sampled, `counters` say it. In slices.
  SampleWeight estimate(const TraceCounters& counters);
  // Calls visit(const TraceRecord&) for each record that refers to a stack or context: those that
  // are live, and those that are held for a snapshot. visit() runs with interrupts on and no lock
  // held; records are copied in slices of kSlice, with interrupts off. One that is there from the
  // beginning to the end of the walk is visited, maybe twice; one that comes or goes meanwhile may
  // be or not. A copy of a record that others make of it meanwhile counts as one that was there:
  // the walk begins anew. The caller sees to it that the table does not end.
  template <typename Visit>
  void visit_slices(Visit visit);
  // Calls visit(copy) for each live record of a shard, with its lock held and interrupts off, in
  // slices between which the shard may change, but is not emptied: the control lock is held. False,
  // with nothing done, if its lock is not free at the beginning. Any context.
  template <typename Visit>
  bool try_visit(unsigned shard, Visit visit);
  // The same without the lock, while every other CPU stands still, wherever it was: in the middle
  // of a change by whoever has the lock, of which a record may be missing, or have size, stack and
  // context of what it was before. Any context.
  template <typename Visit>
  void visit_standing(unsigned shard, Visit visit);
  // The same of references, none in a hook: calls visit(number, object or 0, stack or pair).
  template <typename Visit>
  void visit_references(Visit visit);

 private:
  friend class TraceSnapshot;
  static constexpr uint32_t kFirstBuckets = 4;
  static constexpr uint32_t kSegmentBuckets = kPageSize / sizeof(Record*);
  static constexpr uint32_t kMaxBuckets = uint32_t{1} << 30;
  // For so many buckets there is a record more: that is half a byte less for each.
  static constexpr uint32_t kExtraRecords = 16;

  struct RecordPage {
    static constexpr uint32_t kRecords = 127;
    RecordPage* next;
    uint64_t newer[2];  // a bit for each record: it is newer than the snapshot
    uint32_t snapshot;  // with this number; without meaning if there is another, or none
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
  // Of a segment where the first bucket of all would be, if they lay in a row: a bucket is found by
  // its whole index then.
  using Segment = Record**;
  struct DirectoryHeader;

  // All that a shard has of records.
  struct Store {
    Record* first[kFirstBuckets] = {};
    Record* free = nullptr;
    Segment* directory = &only;
    Segment only = first;  // as long as there is no more than one
    uint32_t buckets = kFirstBuckets;
    // 2^(n+1) - 1 and 2^n - 1, where 2^n is the highest bit of `buckets`.
    uint32_t mask = 2 * kFirstBuckets - 1, half_mask = kFirstBuckets - 1;
    uint32_t records = 0;         // that have ever been in use: not fewer than are live
    RecordPage* pages = nullptr;  // the newest first; only that may have records never in use
    bool tend = false;            // the directory, when the lock is free (tend_directory)

    Record*& bucket(uint32_t index) { return directory[index / kSegmentBuckets][index]; }
    // The same for a hook, which reads and writes it without an instruction for its address.
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
      // As likely as not.
      if (__builtin_expect_with_probability(index < buckets, 1, 0.5)) return index;
      return index & half_mask;
    }
    // One that was freed, or a fresh one, with which a bucket is added; nullptr without memory.
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
    // Leaves this as it was at first.
    void move_to(Store& other);
    // Frees all but what is in the list of pages from `kept` on.
    void release(const RecordPage* kept);
  };

  // What is counted of a shard, first what changes with every record.
  struct Tally {
    ABI_TRACEDUMP_COUNTERS(ABI_TRACEDUMP_COUNTER, ABI_TRACEDUMP_NO_COUNTER,
                           ABI_TRACEDUMP_NO_COUNTER)
    ABI_TRACEDUMP_COUNTERS(ABI_TRACEDUMP_NO_COUNTER, ABI_TRACEDUMP_COUNTER,
                           ABI_TRACEDUMP_NO_COUNTER)
    uint64_t cut_nothing;  // cut() that found no record
  };
  // One more, in one instruction.
  static void count(uint64_t& counter) { asm("addq $1, %0" : "+m"(counter)); }

  // Of a shard of which a snapshot is open: its number, or 0.
  struct Moment {
    uint32_t number = 0;
    bool owns = false;            // `pages` and what follows: the shard has been emptied since
    RecordPage* pages = nullptr;  // the newest at that moment
    Record* held = nullptr;       // freed since then
  };

  // Two lines are all that a hook touches of it.
  struct alignas(64) Shard {
    Store store GUARDED_BY(lock);
    HookLock lock{LockRank::kTraceShard};
    uint64_t bit = 0;  // its own in a word of homes_
    Tally tally GUARDED_BY(lock) = {};
    Moment moment GUARDED_BY(lock);
    uint32_t larges GUARDED_BY(lock) = 0;      // records that are live and large
    uint32_t generation GUARDED_BY(lock) = 0;  // of the store; another after clear()
    // Where its CPU has found the last record that was not here.
    std::atomic<uint32_t> other{0};
    Sampler sampler;  // of the CPU alone

    // Without the lock, which is why they are not analysed: by the CPU whose shard it is, with
    // interrupts off.
    void count_filtered() NO_THREAD_SAFETY_ANALYSIS { count(tally.filtered); }
    void count_unmatched() NO_THREAD_SAFETY_ANALYSIS { count(tally.unmatched); }

    TraceCounters counters() const REQUIRES(lock);
    uint64_t live() const REQUIRES(lock) { return tally.recorded - tally.freed - tally.cleared; }
    // Of a record that is in a chain, or was.
    bool is_newer(const Record* record) const REQUIRES(lock) {
      const RecordPage* page = RecordPage::of(record);
      return page->is_newer(static_cast<uint32_t>(record - page->records), moment.number);
    }
    // One that is free; if `fresh`, also one that was never in use. nullptr without memory.
    Record* take(bool fresh) REQUIRES(lock);
    // What is in no chain any more can be used again.
    void give_back(Record* record) REQUIRES(lock);
    // The same, but not before the snapshot is closed, if it is older.
    void retire(Record* record) REQUIRES(lock);
    // Hooks go the long way as long as they have to.
    void update_lock() REQUIRES(lock) { lock.set_closed(moment.number != 0 || larges != 0); }
  };
  // Where hooks look.
  static_assert(sizeof(Store) + sizeof(HookLock) + 4 * sizeof(uint64_t) <= 128);

  // Asked by the sweeper.
  class Names final : public StoreHolder {
   public:
    explicit Names(TraceTable& table) : table_(table) {}
    void mark(StoreMark& mark) override;

   private:
    TraceTable& table_;
  };

  // Takes the record of an object out of the shard, whose lock is held; false if there is none.
  [[gnu::always_inline]] static bool drop_record(Shard& shard, uint32_t hash, uint64_t object)
      REQUIRES(shard.lock);
  // Of an object that the CPU's own shard has no record of: whether it is seen at once that no
  // other has one either, which is counted.
  [[gnu::always_inline]] bool none_elsewhere(Shard& shard, uint64_t object) REQUIRES(shard.lock);
  // It is in no chain any more.
  [[gnu::always_inline]] static void count_freed(Shard& shard, Record* record) REQUIRES(shard.lock);

  void record_marked(const TraceEvent& event, uint16_t mark_or_owner);
  // Records an allocation, without memory, in a shard in which there is a record that was freed;
  // false if there is none.
  bool record_in_any(const TraceEvent& event, uint64_t word);
  // Records an allocation in the shard, whose lock is held, if it has a record; one that was freed,
  // unless `fresh` ones may be taken too.
  bool record_in(Shard& shard, const TraceEvent& event, uint64_t word, bool fresh)
      REQUIRES(shard.lock);
  bool record_large_in(Shard& shard, const TraceEvent& event, uint64_t word, bool fresh)
      REQUIRES(shard.lock);
  // In this shard, or counts that it could not be.
  void record_rest(Shard& shard, const TraceEvent& event, uint64_t word) REQUIRES(shard.lock);
  void put_record(Shard& shard, Record* record, const TraceEvent& event, Large* large,
                  uint64_t word) REQUIRES(shard.lock);
  // Takes a record out of its chain and counts it as freed. It is in the shard, whose lock is held.
  static void free_record(Shard& shard, Record* record) REQUIRES(shard.lock);
  // Puts another in its place in the chain, or with nullptr what follows.
  static void replace(Store& store, Record* record, Record* other);
  // What is to be changed of a record: the record, or if a snapshot needs it as it is, a copy that
  // takes its place. nullptr without memory.
  Record* changeable(Shard& shard, Record* record) REQUIRES(shard.lock);
  // What is left of a range is its first `size` bytes.
  static void shorten(Shard& shard, Record* record, uint64_t size) REQUIRES(shard.lock);
  // Gives back what of a range lies between `from` and `to`.
  void cut_record(Shard& shard, Record* record, uint64_t from, uint64_t to) REQUIRES(shard.lock);
  // The same of the owner's range that begins at `from`, if it reaches as far as `to`.
  bool cut_first(uint64_t from, uint64_t to, TraceOwner owner);

  struct Walk;
  // Calls visit(record), which may free it, for each live record of the shard: slice after slice,
  // with its lock held. If the shard is emptied meanwhile, from the beginning.
  template <typename Visit>
  static void walk(Shard& shard, Visit visit);
  TraceRecord copy_of(const Record& record) const;
  static constexpr uint64_t kPlaceUnit = 8;
  static uint64_t object_at(uint64_t place);  // what place_of() was told; 0 of 0
  // Fetches a larger directory for the shard, or gives back the smaller one. The context of
  // record(); no tracer lock held.
  static void tend_directory(Shard& shard);

  // Takes the record with this word, of which the highest `ignored` bits do not matter, out of
  // whatever shard it is in. Or counts that there is none: false.
  bool forget_word(uint64_t word, unsigned ignored, uint32_t cpu);
  bool forget_in(Shard& shard, uint64_t word, unsigned ignored);

  // The bytes of the product in reverse, so that the best mixed bits come first.
  static uint32_t hash_of(uint64_t object) {
    uint64_t hash = __builtin_bswap64(object * kHashFactor);
    hide_value(hash);  // traced: one value for all, not the product and parts of it
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
  int64_t passing_step_ = 0;  // the same, or kAlways if there is a filter
  StackScope scope_;
  uint64_t scope_word_ = 0;
  const unsigned shard_count_;

  Names names_{*this};

  // How many records were made of others, which tell visit_slices() to begin anew.
  std::atomic<uint32_t> copies_{0};

  // Whose turn it is to have a snapshot.
  Spinlock turn_lock_{LockRank::kDevice};
  WaitQueue turn_;
  uint32_t snapshots_ GUARDED_BY(turn_lock_) = 0;  // that have chosen the table
  uint32_t number_ GUARDED_BY(turn_lock_) = 0;     // of the last one that was opened
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
