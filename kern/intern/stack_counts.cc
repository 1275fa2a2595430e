#include "intern/stack_counts.h"

#include <bit>
#include <new>
#include <utility>

#include "intern/trace_memory.h"
#include "lib/linear_split.h"

[[gnu::noinline]] bool StackCounts::CpuTable::add_key(uint64_t key, uint32_t hash) {
  Page* page = pages_.load(std::memory_order_relaxed);
  uint32_t used = page ? page->used.load(std::memory_order_relaxed) : Page::kEntries;
  if (used == Page::kEntries) {
    void* memory = trace_page_take();
    if (!memory) return false;
    auto* added = static_cast<Page*>(memory);
    added->next = page;
    new (&added->used) std::atomic<uint32_t>(0);
    pages_.store(added, std::memory_order_release);
    page = added;
    used = 0;
  }
  Entry* entry = new (&page->entries[used]) Entry{nullptr, key, 1};
  page->used.store(used + 1, std::memory_order_release);
  Entry*& head = bucket(bucket_of(hash));
  entry->next = head;
  head = entry;
  const uint32_t keys = keys_.load(std::memory_order_relaxed) + 1;
  keys_.store(keys, std::memory_order_relaxed);
  if (keys > buckets_) grow();
  return true;
}

// Adds a bucket, if there is memory for it. One old bucket is split: its entries that belong in the
// new bucket move there.
void StackCounts::CpuTable::grow() {
  if (buckets_ == kMaxBuckets) return;
  if (buckets_ == kFirstBuckets || buckets_ % kSegmentBuckets == 0) {
    if (!directory_) directory_ = static_cast<Segment**>(trace_page_take());
    if (!directory_) return;
    auto* segment = static_cast<Segment*>(trace_page_take());
    if (!segment) return;
    directory_[buckets_ / kSegmentBuckets] = segment;
  }
  const uint32_t level = std::bit_floor(buckets_);
  linear_split(
      bucket(buckets_ - level), bucket(buckets_),
      [this, level](const Entry* entry) {
        return (hash_of(entry->key) & (2 * level - 1)) == buckets_;
      },
      [](const Entry* entry) { return entry->next; },
      [](Entry* entry, Entry* next) { entry->next = next; });
  buckets_++;
  mask_ = 2 * std::bit_floor(buckets_) - 1;
}

void StackCounts::CpuTable::take_away(Contents& contents) {
  contents = {pages_.load(std::memory_order_relaxed), directory_, buckets_};
  pages_.store(nullptr, std::memory_order_relaxed);
  keys_.store(0, std::memory_order_relaxed);
  buckets_ = kFirstBuckets;
  mask_ = 2 * kFirstBuckets - 1;
  directory_ = nullptr;
  for (Entry*& head : first_) head = nullptr;
}

void StackCounts::CpuTable::release(Contents& contents) {
  while (contents.pages) trace_page_free(std::exchange(contents.pages, contents.pages->next));
  if (!contents.directory) return;
  const uint32_t segments = contents.buckets == kFirstBuckets
                                ? 0
                                : (contents.buckets + kSegmentBuckets - 1) / kSegmentBuckets;
  for (uint32_t i = 0; i < segments; i++) trace_page_free(contents.directory[i]);
  trace_page_free(contents.directory);
  contents = {};
}
