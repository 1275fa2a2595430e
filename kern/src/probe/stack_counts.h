// Counts of events by stack and context: the counts of a session of #probe.
//
// Each CPU has a table, which it alone changes, with interrupts off: no lock is taken, no cache
// line is shared, and a reader's sums are exact. A table is linear hashing with chains, as in
// trace_table.h: each new key splits one bucket, so there is no rehash. Keys are never removed. A
// reader on another CPU goes through the pages of entries, in which `used` counts the complete
// ones, and not through the chains.
//
// Clearing takes the tables away, CPU by CPU, in interprocessor interrupts, which cannot land
// inside add().
//
// A key is the number of a stack, or of a pair of stacks, and of a context in the shared tables.
// Cost for each key on each CPU: 32 bytes.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "lib/units.h"

class StackCounts {
 public:
  struct Key {
    uint32_t stack, context;
  };

  // The table of one CPU.
  class CpuTable {
   public:
    constexpr CpuTable() = default;
    CpuTable(const CpuTable&) = delete;
    CpuTable& operator=(const CpuTable&) = delete;

    // Adds one. False, with nothing done, if there is no memory for an absent key. Interrupts off,
    // on the CPU of the table, unless nobody else uses it. Bound: one chain, and the split of one
    // bucket.
    [[gnu::always_inline]] bool add(uint32_t stack, uint32_t context) {
      const uint64_t key = uint64_t{context} << 32 | stack;
      const uint32_t hash = hash_of(key);
      for (Entry* entry = bucket(bucket_of(hash)); entry; entry = entry->next) {
        if (entry->key != key) continue;
        entry->count.store(entry->count.load(std::memory_order_relaxed) + 1,
                           std::memory_order_relaxed);
        return true;
      }
      return add_key(key, hash);
    }
    // The same without a context, for keys that usually exist: false, with nothing done, if absent.
    [[gnu::always_inline]] bool add_known(uint32_t stack) {
      for (Entry* entry = bucket(bucket_of(hash_of(stack))); entry; entry = entry->next) {
        if (entry->key != stack) continue;
        entry->count.store(entry->count.load(std::memory_order_relaxed) + 1,
                           std::memory_order_relaxed);
        return true;
      }
      return false;
    }

    // Calls visit(key, count) for each key; its CPU may add meanwhile. Not during take_away().
    template <typename Visit>
    void visit(Visit visit) const {
      for (const Page* page = pages_.load(std::memory_order_acquire); page; page = page->next) {
        const uint32_t used = page->used.load(std::memory_order_acquire);
        for (uint32_t i = 0; i < used; i++) {
          const Entry& entry = page->entries[i];
          visit(Key{static_cast<uint32_t>(entry.key), static_cast<uint32_t>(entry.key >> 32)},
                entry.count.load(std::memory_order_relaxed));
        }
      }
    }
    // An upper bound of the keys that visit() finds, unless more are added.
    uint32_t keys() const { return keys_.load(std::memory_order_relaxed); }

    // The contents of a table. They are freed after take_away(), where freeing is allowed.
    struct Contents;
    // Leaves the table empty. Context as add().
    void take_away(Contents& contents);
    // No tracer lock held.
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

    std::atomic<Page*> pages_{nullptr};  // the newest first; only that has room
    std::atomic<uint32_t> keys_{0};
    uint32_t buckets_ = kFirstBuckets;
    uint32_t mask_ =
        2 * kFirstBuckets - 1;  // 2^(n+1) - 1, where 2^n is the highest bit of `buckets_`
    Segment** directory_ = nullptr;
    Entry* first_[kFirstBuckets] = {};
  };
};
