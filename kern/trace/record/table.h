// The outstanding objects of one cache, each with a record of its allocation.
//
// A table has a shard for each CPU; each shard has a lock and counters. A CPU records in its own
// shard, so CPUs that free their own allocations share no cache line that one of them writes. When
// out of memory, a CPU records in any shard that has a free record.
//
// A freeing CPU usually finds the record in its own shard. Otherwise `homes_` names the shards to
// search. `homes_` has a word for each of 256 hash values. A word has a bit for each shard: the bit
// is set if the shard may have records with this hash value. The words change seldom, so all CPUs
// can cache them. The CPU begins with the shard where it last found a record that was not in its
// own shard, because a CPU that frees objects of other CPUs usually does so for one other CPU.
//
// A shard's bit is set before the shard gets its first record with the hash value. A CPU may search
// a shard in vain. If the search has shown that the shard has no record with the hash value, the
// CPU clears the shard's bit, with the shard's lock held. In a shard with more than 256 buckets a
// search sees only some of the records with the hash value, so the bit stays set.
//
// table_store_impl.h has the records of a shard and their hash table.
//
// A shard's lock can be closed to hooks (HookLock). Hooks then use the slow path; only this path
// handles large records and snapshots (snapshot.h). A walk over all records proceeds in slices, and
// releases the lock between two slices. It restarts if a clear() comes in between.
//
// Two identities hold in each shard whenever its lock is free:
//   seen = recorded + dropped + filtered        recorded = freed + cleared + live
// Hooks do not count `seen` and `live`; readers compute them under the lock. A record costs 32
// bytes, plus a quarter of a byte for the page header and 7.5 bytes for buckets.
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
#include "intern/shared_tables.h"
#include "lib/optimizer.h"
#include "lib/units.h"
#include "trace/record/counters_impl.h"
#include "trace/record/free_counts_impl.h"
#include "trace/record/options.h"
#include "trace/record/record.h"
#include "trace/record/sampler.h"
#include "trace/record/table_store_impl.h"
#include "trace/trace.h"

class TraceSnapshot;

class alignas(64) TraceTable {
  using Store = TableStore;
  using Record = Store::Record;
  using RecordPage = Store::RecordPage;
  using Large = Store::Large;

  // homes_ is the first member, so that a hook need not add an offset to the index.
  static constexpr uint32_t kHomes = 256;
  std::atomic<uint64_t> homes_[kHomes] = {};

 public:
  static_assert(kMaxCpus <= 64, "a bit for each in homes_");
  static constexpr uint32_t kMaxMark = UINT16_MAX;
  // The most records that a walk visits without turning interrupts on.
  static constexpr uint32_t kSlice = 64;

  explicit TraceTable(unsigned shards);
  // Makes a table for CPUs 0 to `cpus` - 1; the table takes one page for up to six CPUs. nullptr
  // when out of memory. No tracer lock held.
  static TraceTable* create(unsigned cpus);
  // Ends a table that no hook uses any more: it is no user of the shared tables any more, and later
  // calls of TraceSnapshot::open() fail. Memory that a snapshot needs is freed when the snapshot is
  // closed. May sleep. No lock of the table, of the shared tables or of trace memory held.
  static void destroy(TraceTable* table);

  // Number of shards, one for each CPU.
  unsigned shards() const { return shard_count_; }

  // The mark changes only under the control lock; hooks read it.
  uint32_t mark() const { return TraceRecord::mark_of(mark_.load(std::memory_order_relaxed)); }
  void set_mark(uint32_t mark) {
    mark_.store(TraceRecord::word_of(0, mark), std::memory_order_relaxed);
  }
  // Begins the next mark. Every CPU sees the new mark before this function returns.
  void next_mark() { mark_.fetch_add(TraceRecord::word_of(0, 1), std::memory_order_seq_cst); }
  std::atomic<bool> running{false};
  void set_running(bool runs);

  // The source of the trace, and the next table in the list of started.cc, which a panic can walk
  // at any time.
  TraceSource source;
  std::atomic<TraceTable*> next_started{nullptr};

  // The user of the shared tables, for the stack and context numbers in the table's records
  // (shared_tables.h).
  TableUser& names() { return names_; }
  bool is_user() const { return names_.is_user(); }

  // The options change only while nothing is recorded, so that no hook of an allocation sees a
  // change half-way.
  const TraceOptions& options() const { return options_; }
  void set_options(const TraceOptions& options);
  // Makes the counts that `frees` in the options needs. False when out of memory. Called like
  // set_options(), before it.
  bool make_free_counts();
  // The counts of frees; nullptr if the options have no `frees`.
  const FreeCounts* free_counts() const { return options_.frees ? frees_ : nullptr; }
  // True if forget() is to get the stack of the free.
  bool counts_frees() const { return counts_frees_.load(std::memory_order_relaxed); }
  // Starts the sampling countdowns unless they have started. Called only while nothing is recorded.
  // The seed is the time stamp counter. So two runs that execute exactly the same instructions
  // (QEMU with icount) take the same samples.
  void seed_samplers(uint64_t seed);
  // True if some allocations are not recorded: there is a filter, or the trace is sampled.
  bool selects() const { return selects_; }
  bool filters() const { return filters_; }
  // True if a freed object probably has no record: selects() is true, or the trace is stopped and
  // has few records.
  bool has_few() const { return has_few_; }
  // The most frames of a kernel stack that are recorded.
  const StackDepth& depth() const { return depth_; }
  // The amount that a byte takes from a sampling countdown; 0 if the trace is not sampled.
  uint64_t step() const { return sample_step_; }
  // True if sampling takes an allocation of `size` bytes; always true if the trace is not sampled.
  // `size` is not 0. Called with interrupts off; takes no lock.
  bool samples(uint64_t size, CpuId cpu) {
    return sample_step_ == 0 || shard_of(cpu).sampler.take(size, sample_step_);
  }
  // Called if selects() is true. If there is no filter and sampling skips the allocation, counts
  // the allocation as filtered and returns true. Otherwise changes nothing and returns false.
  // Called with interrupts off; takes no lock.
  [[gnu::always_inline]] bool passes_over(uint64_t size, CpuId cpu);

  // True if a record can hold the object: `object` is a number of 48 bits, sign-extended. All
  // canonical addresses are such numbers, but an arena may hand out others.
  static constexpr bool holds(uint64_t object) {
    return static_cast<uint64_t>(static_cast<int64_t>(object << 16) >> 16) == object;
  }

  // A record can hold sizes of up to kMaxSize bytes. Only record() records allocations of
  // kLargeSize bytes or more; record_at_once() does not.
  static constexpr uint64_t kLargeSize = Store::kLarge;
  static constexpr uint64_t kMaxSize = (uint64_t{1} << 48) - 1;

  // The record of a reference has the number of the reference as its object, and the result of this
  // function as its size. The result tells to which object the reference points: the object's
  // offset in the direct map, in units of 8 bytes. It is 0 for an object outside of the direct map,
  // or at an offset of 16 GiB or more.
  static uint64_t place_of(const void* object) {
    const uint64_t place = direct_map_phys(object).value / kPlaceUnit;
    return place < kLargeSize ? place : 0;
  }

  // In all functions from here on, `cpu` is the calling CPU.

  // Counts an allocation that filters or sampling exclude. Called with interrupts off; takes no
  // lock.
  void filter(CpuId cpu) { shard_of(cpu).count_filtered(); }
  // Records an allocation, or counts it as dropped if there is no memory or a record cannot hold
  // the object. Any context but NMI, after trace_memory_prepare(); takes a lock of rank
  // kTraceShard. Bound: the split of two buckets (four for a large record), or a look at the free
  // list of each shard.
  void record(const TraceEvent& event);
  // Records an allocation if this needs no waiting, no memory and no change of homes_. Otherwise
  // returns false, with nothing done. Interrupts are off. `stack` and `context` are not kNone;
  // `stack` may have kStackTruncated. A record can hold `object`, and `size` is below kLargeSize.
  // `stamp` is Cpu::stamp of this CPU. Bound: about 50 instructions.
  [[gnu::always_inline]] bool record_at_once(uint64_t object, uint64_t size, uint64_t stack,
                                             ContextId context, uint32_t stamp) {
    return record_at_once(object, size, stack, context, stamp, [this] { return mark(); });
  }
  template <typename MarkOrOwner>
  [[gnu::always_inline]] bool record_at_once(uint64_t object, uint64_t size, uint64_t stack,
                                             ContextId context, uint32_t stamp,
                                             MarkOrOwner mark_or_owner) {
    return record_known(
        object, size, CpuId{static_cast<uint32_t>(stamp & TraceRecord::kCpu)},
        [mark_or_owner](uint64_t word) { return TraceRecord::word_of(word, mark_or_owner()); },
        stack, [context] { return uint64_t{number_of(context)}; },
        [stamp](uint64_t link) { return link | stamp; });
  }
  // record_at_once() for hooks, which have few registers. So it takes functions instead of values,
  // and calls each where its result is stored. marked(object) returns the record's object_mark;
  // names() returns the context and the caller in one word; stamped(link) returns next_stamp.
  template <typename Marked, typename Numbers, typename Stamped>
  [[gnu::always_inline]] bool record_known(uint64_t object, uint64_t size, CpuId cpu, Marked marked,
                                           uint64_t stack, Numbers names, Stamped stamped);
  // Returns the object_mark of a record of `object` with the current mark.
  uint64_t marked(uint64_t object) const {
    asm volatile("xorq %1, %0" : "+r"(object) : "m"(mark_));
    return object;
  }
  // Removes the record of an object that is being freed, or counts that there was none. If frees
  // are counted, `freed_by` is the stack of the free; kNone: it could not be stored. Any context
  // but NMI; takes a lock of rank kTraceShard. Bound: a chain of each shard that may have the
  // record, usually one.
  void forget(uint64_t object, CpuId cpu, StackId freed_by = StackId::kNone);
  // forget() for hooks, with interrupts off. Does not wait, and uses only the CPU's own shard. If
  // that is not enough, returns false, with nothing done.
  [[gnu::always_inline]] bool forget_at_once(uint64_t object, CpuId cpu);
  // For an object whose record is not in the CPU's own shard. Searches one shard that homes_ names:
  // if possible, the shard where the CPU last found such a record. If the record is there, removes
  // it. Otherwise returns false, and the table is unchanged. Called with interrupts off. Bound: one
  // chain.
  [[gnu::always_inline]] bool forget_elsewhere(uint64_t object, CpuId cpu);
  // True if homes_ shows that no shard has a record of `object`, which is being freed. Called with
  // interrupts off; takes no lock.
  [[gnu::always_inline]] bool has_none(uint64_t object) const;
  // Counts the free of an object without a record.
  void count_unmatched(CpuId cpu) { shard_at(number_of(cpu)).count_unmatched(); }
  // Marks the object's record, if there is one, as no leak. Any context but NMI; takes a lock of
  // rank kTraceShard. Bound: a chain of each shard that may have the record.
  void note_not_leak(uint64_t object);
  // Copies the record of an object; false if it has none. Any context but NMI; takes a lock of rank
  // kTraceShard.
  bool find(uint64_t object, TraceRecord& found);
  // record() for probes on programs. Their objects are identified by address and `owner`, since
  // other processes use the same addresses. The record has the owner in place of the mark. Called
  // with interrupts off.
  void record(const TraceEvent& event, TraceOwner owner);
  // forget() for probes on programs. False if there was no record; this is counted.
  bool forget_of(TraceOwner owner, uint64_t object, CpuId cpu);
  // Changes the owner of the object's record; false if there is none. Bound: a chain of each shard
  // that may have the record.
  bool reown(TraceOwner from, uint64_t object, TraceOwner to);
  // Counts an allocation that could not be recorded.
  void drop(CpuId cpu);
  // Called when trace_memory_prepare() has found little memory. If there is none for a record, does
  // drop() and returns true, so that nothing else need be done for the allocation. Context and
  // locks as for record(). Bound: a look at the free list of each shard.
  bool drop_if_full(CpuId cpu);
  // Called when a process has ended. With kKeep, the process's records stay, without an owner. With
  // kClear, they are removed and counted as `cleared`. Works in slices. Task context.
  enum class Leave : uint8_t { kKeep, kClear };
  void leave(TraceOwner owner, Leave how);
  // For objects that are ranges of memory of whole pages. (A record has the requested bytes, so its
  // end lies in the range's last page.) Removes the whole pages [address, address + size) from the
  // owner's ranges. If a range begins before `address`, its record is shortened. If a range ends
  // after the removed pages, the part after them gets a new record. Works in slices. False if there
  // was no such range; this is counted.
  bool cut(uint64_t address, uint64_t size, TraceOwner owner);
  // Removes all records and counts them as `cleared`. No tracer lock held.
  void clear();
  // Frees the memory of records in empty shards. No tracer lock held.
  void trim();

  // Sums over the shards; each shard is read at another moment.
  TraceCounters counters();
  // The bytes and objects that the live records represent. If the trace is not sampled, these are
  // the numbers in `counters`. Works in slices.
  SampleWeight estimate(const TraceCounters& counters);
  // Calls visit(const TraceRecord&) for each record that refers to a stack or context: live
  // records, and records held for a snapshot. visit() runs with interrupts on and no lock held;
  // records are copied in slices of kSlice, with interrupts off. A record that exists throughout
  // the walk is visited at least once; a record that appears or disappears meanwhile may be missed.
  // If one record is copied to another one meanwhile, the walk restarts, so that it also visits the
  // copy. The caller keeps the table alive.
  template <typename Visit>
  void visit_slices(Visit visit);
  // Calls visit(copy) for each live record of a shard, in slices, with the shard's lock held and
  // interrupts off. Between slices the shard may change. It is not emptied, since the caller holds
  // the control lock or has stopped all other CPUs. If the shard's lock is not free at the
  // beginning, returns false, with nothing done. Any context.
  template <typename Visit>
  bool try_visit(unsigned shard, Visit visit);
  // Calls visit(copy) for each live record of a shard without the lock, while every other CPU is
  // stopped. A stopped CPU may be in the middle of a change: the record that it changes may be
  // missing, or have its old size, stack and context. Any context.
  template <typename Visit>
  void visit_standing(unsigned shard, Visit visit);
  // Only for the table of a class of references. Calls visit(number, object, stack) for each live
  // reference. `object` is the object that the reference points to, or 0 if it is not known;
  // `stack` may be a pair. Called while every other CPU is stopped, and no CPU is in a hook.
  template <typename Visit>
  void visit_references(Visit visit);

 private:
  friend class TraceSnapshot;
  // A shard's counters. Those that change with every record come first.
  struct Tally {
    ABI_TRACEDUMP_COUNTERS(ABI_TRACEDUMP_COUNTER, ABI_TRACEDUMP_NO_COUNTER,
                           ABI_TRACEDUMP_NO_COUNTER)
    ABI_TRACEDUMP_COUNTERS(ABI_TRACEDUMP_NO_COUNTER, ABI_TRACEDUMP_COUNTER,
                           ABI_TRACEDUMP_NO_COUNTER)
    uint64_t cut_nothing;  // calls of cut() that found no record
  };
  // Increments a counter in one instruction.
  static void count(uint64_t& counter) { asm("addq $1, %0" : "+m"(counter)); }

  // A shard's state for an open snapshot.
  struct ShardSnapshot {
    uint32_t number = 0;          // number of the snapshot; 0: none
    bool owns = false;            // the shard was emptied meanwhile: the snapshot owns `pages`
    RecordPage* pages = nullptr;  // the newest page at the time when the snapshot was opened
    Record* held = nullptr;       // the records freed since then and held, linked by next()
  };

  // A hook touches only the first two cache lines of a shard.
  struct alignas(64) Shard {
    Store store GUARDED_BY(lock);
    HookLock lock{LockRank::kTraceShard};
    uint64_t bit = 0;  // the shard's bit in a word of homes_
    Tally tally GUARDED_BY(lock) = {};
    ShardSnapshot snapshot GUARDED_BY(lock);
    uint32_t larges GUARDED_BY(lock) = 0;  // live large records
    uint32_t times_emptied GUARDED_BY(lock) = 0;
    bool counts_frees GUARDED_BY(lock) = false;
    // The shard where this shard's CPU last found a record that was not in its own shard.
    std::atomic<uint32_t> other{0};
    Sampler sampler;  // used only by this shard's CPU

    // Called by the shard's CPU with interrupts off, without the lock. No other CPU changes these
    // two counters, and each change is one instruction.
    void count_filtered() {
      lock.not_needed();
      count(tally.filtered);
    }
    void count_unmatched() {
      lock.not_needed();
      count(tally.unmatched);
    }

    TraceCounters counters() const REQUIRES(lock);
    uint64_t live() const REQUIRES(lock) { return tally.recorded - tally.freed - tally.cleared; }
    // True if the record is newer than the snapshot. The record is or was in a chain.
    bool is_newer(const Record* record) const REQUIRES(lock) {
      const RecordPage* page = RecordPage::of(record);
      return page->is_newer(static_cast<uint32_t>(record - page->records), snapshot.number);
    }
    // Takes a freed record. If there is none and `fresh` is true, takes a record that was never in
    // use. nullptr if no record can be taken.
    Record* take(bool fresh) REQUIRES(lock);
    // Frees a record that is not in a chain any more.
    void give_back(Record* record) REQUIRES(lock);
    // Frees a record that is not in a chain any more; if it is older than an open snapshot, holds
    // it until the snapshot is closed.
    void retire(Record* record) REQUIRES(lock);
    // Closes the lock to hooks if the shard has a snapshot or large records, or counts frees;
    // otherwise opens it.
    void update_lock() REQUIRES(lock) {
      lock.set_closed(snapshot.number != 0 || larges != 0 || counts_frees);
    }
  };
  // Checks that the fields that hooks use lie in the first two cache lines.
  static_assert(sizeof(Store) + sizeof(HookLock) + 4 * sizeof(uint64_t) <= 128);

  // The table as a user of the shared tables (shared_tables.h), for the stack and context numbers
  // in its records.
  class Names final : public TableUser {
   public:
    explicit Names(TraceTable& table) : table_(table) {}
    void retain(Retained& retained) override;

   private:
    TraceTable& table_;
  };

  // Removes the record of an object from the shard, whose lock is held; false if there is none.
  [[gnu::always_inline]] static bool drop_record(Shard& shard, uint32_t hash, uint64_t object)
      REQUIRES(shard.lock);
  // Called for an object without a record in the CPU's own shard. If homes_ shows that no other
  // shard has a record of it, counts an unmatched free and returns true.
  [[gnu::always_inline]] bool none_elsewhere(Shard& shard, uint64_t object) REQUIRES(shard.lock);
  // Frees a record that is not in a chain any more, and counts it as freed.
  [[gnu::always_inline]] static void count_freed(Shard& shard, Record* record) REQUIRES(shard.lock);

  void record_marked(const TraceEvent& event, uint16_t mark_or_owner);
  // Called when out of memory. Records an allocation in any shard that has a freed record and whose
  // lock is free; false if there is none.
  bool record_in_any(const TraceEvent& event, uint64_t word);
  // Records an allocation in a freed record of the shard. If there is none and `fresh` is true,
  // uses a record that was never in use. False if there is no such record.
  bool record_in(Shard& shard, const TraceEvent& event, uint64_t word, bool fresh)
      REQUIRES(shard.lock);
  bool record_large_in(Shard& shard, const TraceEvent& event, uint64_t word, bool fresh)
      REQUIRES(shard.lock);
  // Records the rest of a cut range in this shard, or counts it as dropped.
  void record_rest(Shard& shard, const TraceEvent& event, uint64_t word) REQUIRES(shard.lock);
  void put_record(Shard& shard, Record* record, const TraceEvent& event, Large* large,
                  uint64_t word) REQUIRES(shard.lock);
  // Takes a record of the shard out of its chain, counts it as freed, and frees or holds it.
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
  // If the owner has a range that begins at `from` and reaches `to`, removes the part between
  // `from` and `to`. Otherwise returns false.
  bool cut_first(uint64_t from, uint64_t to, TraceOwner owner);

  struct Walk;
  // Calls visit(record) for each live record of the shard: slice by slice, with the shard's lock
  // held. visit() may free the record. Restarts if the shard is emptied meanwhile. Calls begin()
  // when it begins and when it restarts.
  template <typename Visit, typename Begin>
  static void walk(Shard& shard, Visit visit, Begin begin);
  template <typename Visit>
  static void walk(Shard& shard, Visit visit) {
    walk(shard, visit, [] {});
  }
  // The walk of visit_slices(). take(record, copy) runs with the shard's lock held; it either
  // stores in `copy` what visit(copy) needs and returns true, or returns false to skip the record.
  template <typename Copy, typename Take, typename Visit>
  void visit_copies(Copy (&copies)[kSlice], Take take, Visit visit);
  TraceRecord copy_of(const Record& record) const;
  static constexpr uint64_t kPlaceUnit = 8;
  static uint64_t object_at(uint64_t place);  // the inverse of place_of(); 0 for 0
  // Allocates a larger directory for the shard, or frees the smaller one. Any context but NMI; no
  // tracer lock held.
  static void tend_directory(Shard& shard);

  // Removes the record of an object from another shard than `own`, in the way of a hook. False if
  // none has it, or if a lock is not available at once: the caller then searches in the other way.
  bool forget_in_others(uint64_t object, Shard& own);
  // Finds the record whose object_mark equals `word`, except for the highest `ignored` bits, and
  // frees it. False if there is none; this is counted.
  bool forget_word(uint64_t word, unsigned ignored, CpuId cpu, StackId freed_by);
  bool forget_in(Shard& shard, uint64_t word, unsigned ignored, CpuId cpu, StackId freed_by);

  static uint32_t hash_of(uint64_t object) { return Store::hash_of(object); }
  static_assert(kHomes == 1 << 8, "has_none()");
  Shard* first_shard() { return reinterpret_cast<Shard*>(this + 1); }
  std::span<Shard> all_shards() { return {first_shard(), shard_count_}; }
  Shard& shard_of(CpuId cpu) { return shard_at(number_of(cpu)); }
  Shard& shard_at(uint64_t index) { return first_shard()[index]; }
  uint64_t home(uint32_t hash) const {
    return homes_[hash % kHomes].load(std::memory_order_relaxed);
  }

  std::atomic<uint64_t> mark_{0};  // the mark at its position in a record's object_mark
  TraceOptions options_;
  uint64_t sample_step_ = 0;
  bool selects_ = false, filters_ = false;
  bool has_few_ = true;
  int64_t passing_step_ = 0;  // sample_step_, or kAlways if there is a filter
  // 1 if there is a filter, otherwise 0: makes passes_over() leave even size 0 to the filters.
  uint64_t passing_weight_ = 0;
  StackDepth depth_;
  const unsigned shard_count_;

  FreeCounts* frees_ =
      nullptr;  // made by the first start with `frees`, set during RetainingStopped
  std::atomic<bool> counts_frees_{false};

  Names names_{*this};

  // How often a record was copied to another record; a change makes visit_slices() restart.
  std::atomic<uint32_t> copies_{0};

  // One snapshot at a time is open; others wait.
  Spinlock turn_lock_{LockRank::kDevice};
  WaitQueue turn_;
  // The trace itself until destroy(), and each snapshot between choose() and close(). The last user
  // frees the memory.
  uint32_t users_ GUARDED_BY(turn_lock_) = 1;
  uint32_t number_ GUARDED_BY(turn_lock_) = 0;  // number of the last opened snapshot
  bool taken_ GUARDED_BY(turn_lock_) = false;   // a snapshot is open
  bool ended_ GUARDED_BY(turn_lock_) = false;   // destroy() has been called
  static void leave(TraceTable* table);         // takes away a user
  static constexpr size_t size_of(unsigned shards);

  // The shards follow this object in memory.
};

constexpr size_t TraceTable::size_of(unsigned shards) {
  return align_up(sizeof(TraceTable) + shards * sizeof(Shard), kPageSize);
}

#include "trace/record/table_hooks_impl.h"  // the inline functions of hooks
#include "trace/record/table_walk_impl.h"   // the templates
