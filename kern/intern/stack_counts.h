// Counts of events by stack and another number: the counts of a session of #probe by stack and
// context, and those of a trace's frees by the stacks that allocated and freed
// (free_counts_impl.h).
//
// Each CPU has a table, which only this CPU changes, with interrupts off. So no lock is taken, no
// cache line is shared, and a reader's sums are exact. A table uses linear hashing with chains, as
// table_store_impl.h does: each new key splits one bucket, so no operation rehashes the whole
// table. Keys are never removed. A reader on another CPU does not follow the chains. It reads the
// pages of entries: the first `used` entries of a page are complete.
//
// Clearing empties the table of each CPU in an interprocessor interrupt, which cannot land inside
// add(). The memory is freed afterwards.
//
// A key consists of two numbers: that of a stack or of a pair of stacks, and that of a context (0:
// no context) or of another stack. These are numbers in the tables of stacks and contexts that all
// traces share (intern/shared_tables.h). Cost for each key on each CPU: 32 bytes.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "intern/ids.h"
#include "lib/units.h"

class StackCounts {
 public:
  struct Key {
    Key(StackId stack, ContextId context) : stack(stack), other(number_of(context)) {}
    Key(StackId stack, StackId other) : stack(stack), other(number_of(other)) {}
    explicit Key(uint64_t word)
        : stack(StackId{static_cast<uint32_t>(word)}), other(static_cast<uint32_t>(word >> 32)) {}
    ContextId context() const { return ContextId{other}; }
    StackId other_stack() const { return StackId{other}; }
    uint64_t word() const { return uint64_t{other} << 32 | number_of(stack); }

    StackId stack;
    uint32_t other;
  };

  // The table of one CPU.
  class CpuTable {
   public:
    constexpr CpuTable() = default;
    CpuTable(const CpuTable&) = delete;
    CpuTable& operator=(const CpuTable&) = delete;

    // Adds 1 to the count of a key. If the key is absent and there is no memory for it, returns
    // false and does nothing. Called on the CPU of the table with interrupts off, or in any context
    // while the caller is the only user of the table. Bound: one chain, and the split of one
    // bucket.
    [[gnu::always_inline]] bool add(Key counted) {
      const uint64_t key = counted.word();
      const uint32_t hash = hash_of(key);
      for (Entry* entry = bucket(bucket_of(hash)); entry; entry = entry->next) {
        if (entry->key != key) continue;
        entry->count.store(entry->count.load(std::memory_order_relaxed) + 1,
                           std::memory_order_relaxed);
        return true;
      }
      return add_key(key, hash);
    }
    // Adds 1 to the count of a stack without a ContextId. If the key is absent, returns false and
    // does nothing. Called like add().
    [[gnu::always_inline]] bool add_known(StackId stack) {
      const uint64_t key = number_of(stack);
      for (Entry* entry = bucket(bucket_of(hash_of(key))); entry; entry = entry->next) {
        if (entry->key != key) continue;
        entry->count.store(entry->count.load(std::memory_order_relaxed) + 1,
                           std::memory_order_relaxed);
        return true;
      }
      return false;
    }

    // Calls visit(key, count) for each key. The table's CPU may call add() meanwhile, and must not
    // call take_away().
    template <typename Visit>
    void visit(Visit visit) const {
      for (const Page* page = pages_.load(std::memory_order_acquire); page; page = page->next) {
        const uint32_t used = page->used.load(std::memory_order_acquire);
        for (uint32_t i = 0; i < used; i++) {
          const Entry& entry = page->entries[i];
          visit(Key(entry.key), entry.count.load(std::memory_order_relaxed));
        }
      }
    }
    // An upper bound of the number of keys that visit() finds, if no key is added meanwhile.
    uint32_t keys() const { return keys_.load(std::memory_order_relaxed); }

    // The memory that take_away() takes from a table. release() frees it later, in a context in
    // which freeing is allowed.
    struct Contents;
    // Moves the table's memory to `contents` and leaves the table empty. Called like add().
    void take_away(Contents& contents);
    // Frees the memory. The caller holds no tracer lock.
    static void release(Contents& contents);

   private:
    struct Entry {
      Entry* next;
      uint64_t key;
      std::atomic<uint64_t> count;
    };
    struct Page {
      static constexpr uint32_t kEntries = (kPageSize - 16) / sizeof(Entry);
      Page* next;
      std::atomic<uint32_t> used;
      Entry entries[kEntries];
    };
    static_assert(sizeof(Page) <= kPageSize);
    static constexpr uint32_t kFirstBuckets = 8;
    static constexpr uint32_t kSegmentBuckets = kPageSize / sizeof(Entry*);
    static constexpr uint32_t kMaxBuckets = kSegmentBuckets * kSegmentBuckets;
    using Segment = Entry* [kSegmentBuckets];

   public:
    struct Contents {
      Page* pages = nullptr;
      Segment** directory = nullptr;
      uint32_t buckets = 0;
    };

   private:
    static uint32_t hash_of(uint64_t key) {
      return static_cast<uint32_t>(__builtin_bswap64(key * 0x9e3779b97f4a7c15) >> 3);
    }
    uint32_t bucket_of(uint32_t hash) const {
      const uint32_t index = hash & mask_;
      return index < buckets_ ? index : index & mask_ >> 1;
    }
    Entry*& bucket(uint32_t index) {
      if (index < kFirstBuckets) return first_[index];
      return (*directory_[index / kSegmentBuckets])[index % kSegmentBuckets];
    }
    bool add_key(uint64_t key, uint32_t hash);
    void grow();

    std::atomic<Page*> pages_{nullptr};  // newest first; only the newest has room
    std::atomic<uint32_t> keys_{0};
    uint32_t buckets_ = kFirstBuckets;
    // 2^(n+1) - 1, where 2^n is the highest bit of `buckets_`.
    uint32_t mask_ = 2 * kFirstBuckets - 1;
    Segment** directory_ = nullptr;
    Entry* first_[kFirstBuckets] = {};
  };
};
