// Memory for a shard's records and buckets: pages of the pool, taken while the shard's lock is
// held. Only a larger directory needs more than a page: the recording CPU gets it afterwards,
// without the lock (tend_directory).
#include <bit>
#include <utility>

#include "store/trace_memory.h"
#include "trace/trace_table.h"

// The header of a directory of segments. When the directory is half full, a larger one is
// allocated. Each added segment then copies a few segments to the larger one, so that the copy is
// complete before the smaller one is full; then the smaller one is freed. Without memory for it no
// buckets are added, and chains get longer.
struct TraceTable::DirectoryHeader {
  static constexpr uint32_t kCopiesAtOnce = 8;
  static constexpr uint32_t kAllCopied = UINT32_MAX;  // from `other`, which can be freed

  uint32_t capacity;  // in segments
  uint32_t copied;    // to the larger one
  Segment* other;     // the larger or the smaller one; or nullptr

  static DirectoryHeader& of(Segment* directory) {
    return reinterpret_cast<DirectoryHeader*>(directory)[-1];
  }
  static Segment* make(void* block, size_t size) {
    auto* const header = new (block) DirectoryHeader;
    *header = {static_cast<uint32_t>((size - sizeof(*header)) / sizeof(Segment)), 0, nullptr};
    return reinterpret_cast<Segment*>(header + 1);
  }
  static void free(Segment* directory) { trace_block_free(&of(directory), of(directory).size()); }
  size_t size() const { return sizeof(*this) + capacity * sizeof(Segment); }
};

void TraceTable::Store::move_to(Store& other) {
  other = *this;
  if (directory == &only) other.directory = &other.only;
  new (this) Store;
}

// Takes a second fresh record, for the next hook, unless this would begin a page or a segment: that
// would be too much work for one hook.
TraceTable::Record* TraceTable::Store::take_fresh_records() {
  Record* const record = take_fresh_record();
  if (record && pages->used > 1 && pages->used < RecordPage::kRecords &&
      buckets % kSegmentBuckets != 0 && buckets != kFirstBuckets)
    give_back(take_fresh_record());
  return record;
}

// Stores in an order in which visit_standing() can read at any time.
TraceTable::Record* TraceTable::Store::take_fresh_record() {
  if (!pages || pages->used == RecordPage::kRecords) {
    auto* page = static_cast<RecordPage*>(trace_page_take());
    if (!page) return nullptr;
    page->next = pages;
    page->snapshot = page->used = 0;
    std::atomic_signal_fence(std::memory_order_release);
    pages = page;
  }
  if (++records > buckets + buckets / kExtraRecords) grow();
  Record* const record = &pages->records[pages->used];
  record->object_mark = 0;
  record->size = 0;  // so that it is not kLarge
  std::atomic_signal_fence(std::memory_order_release);
  pages->used++;
  return record;
}

// Adds a bucket, if there is memory for it, and moves to it its records from the bucket that it is
// split from.
void TraceTable::Store::grow() {
  if (buckets == kMaxBuckets) return;
  if ((buckets == kFirstBuckets || buckets % kSegmentBuckets == 0) && !add_segment()) return;
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
  half_mask = std::bit_floor(buckets) - 1;
  mask = 2 * half_mask + 1;
}

bool TraceTable::Store::add_segment() {
  const uint32_t index = buckets / kSegmentBuckets;
  if (index == 0) return add_first_segment();
  if (directory == &only) {
    void* const page = trace_page_take();
    if (!page) return false;
    directory = DirectoryHeader::make(page, kPageSize);
    directory[0] = only;
  }
  copy_segments(index);
  const DirectoryHeader& header = DirectoryHeader::of(directory);
  tend = header.copied == DirectoryHeader::kAllCopied ||
         (!header.other && index >= header.capacity / 2);
  if (index == header.capacity) return false;
  void* const page = trace_page_take();
  if (page) directory[index] = segment_of(page, index);
  return page;
}

bool TraceTable::Store::add_first_segment() {
  void* const page = trace_page_take();
  if (!page) return false;
  only = segment_of(page, 0);
  std::ranges::copy(first, only);
  return true;
}

void TraceTable::Store::copy_segments(uint32_t segments) {
  DirectoryHeader& header = DirectoryHeader::of(directory);
  if (!header.other || header.copied == DirectoryHeader::kAllCopied) return;
  for (uint32_t i = 0; header.copied < segments && i < DirectoryHeader::kCopiesAtOnce; i++) {
    header.other[header.copied] = directory[header.copied];
    header.copied++;
  }
  if (header.copied < segments) return;
  Segment* const smaller = std::exchange(directory, header.other);
  DirectoryHeader::of(directory).other = smaller;
  DirectoryHeader::of(directory).copied = DirectoryHeader::kAllCopied;
}

// Bound: one block from the arena. The shard may be emptied while its lock is not held.
void TraceTable::tend_directory(Shard& shard) {
  Segment* unneeded = nullptr;
  size_t wanted = 0;  // bytes
  {
    Guard guard(shard.lock);
    Store& store = shard.store;
    store.tend = false;
    if (store.directory == &store.only) return;
    DirectoryHeader& header = DirectoryHeader::of(store.directory);
    if (header.copied == DirectoryHeader::kAllCopied) {
      unneeded = std::exchange(header.other, nullptr);
      header.copied = 0;
    } else if (!header.other) {
      wanted = 2 * header.size();
    }
  }
  if (unneeded) DirectoryHeader::free(unneeded);
  void* const block = wanted > 0 ? trace_block_take(wanted) : nullptr;
  if (!block) return;
  Segment* const larger = DirectoryHeader::make(block, wanted);
  {
    Guard guard(shard.lock);
    if (shard.store.directory != &shard.store.only) {
      DirectoryHeader& header = DirectoryHeader::of(shard.store.directory);
      if (!header.other && 2 * header.size() == wanted) {
        header.other = larger;
        return;
      }
    }
  }
  DirectoryHeader::free(larger);
}

void TraceTable::Store::release(const RecordPage* kept) {
  while (pages != kept) trace_page_free(std::exchange(pages, pages->next));
  if (buckets == kFirstBuckets) return;
  const uint32_t segments = (buckets + kSegmentBuckets - 1) / kSegmentBuckets;
  for (uint32_t i = 0; i < segments; i++) trace_page_free(page_of(directory[i], i));
  if (directory == &only) return;
  if (Segment* const other = DirectoryHeader::of(directory).other) DirectoryHeader::free(other);
  DirectoryHeader::free(directory);
}
