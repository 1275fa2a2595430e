// Memory for a shard's records and buckets: pages of the pool (trace_memory.h), taken while the
// shard's lock is held. Only a larger directory needs more than a page: the recording CPU allocates
// it afterwards, without the lock (tend_directory).
#include <bit>
#include <utility>

#include "intern/trace_memory.h"
#include "lib/linear_split.h"
#include "trace/record/table.h"

// The header of a directory of segments. When the directory is half full, a larger one is
// allocated. Each time a segment is added, a few entries are copied to the larger directory, so
// that the copy is complete before the smaller directory is full; then the smaller one is freed. If
// there is no memory for a larger directory, the full one stays: no buckets are added, and chains
// get longer.
struct TableStore::DirectoryHeader {
  static constexpr uint32_t kCopiesAtOnce = 8;
  // Value of `copied`: all segments have been copied from `other`, which can be freed.
  static constexpr uint32_t kAllCopied = UINT32_MAX;

  uint32_t capacity;  // number of segments that fit
  uint32_t copied;    // number of segments copied to the larger directory; or kAllCopied
  Segment* other;     // the larger directory; if kAllCopied, the smaller one; or nullptr

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

void TableStore::move_to(TableStore& other) {
  other = *this;
  if (directory == &only) other.directory = &other.only;
  new (this) TableStore;
}

// Takes a fresh record. Also puts a second one on the free list, for the next hook. The second one
// is omitted if one of the two records begins a page, or if the second could add a segment, because
// this would be too much work for one hook.
TableStore::Record* TableStore::take_fresh_records() {
  Record* const record = take_fresh_record();
  if (record && pages->used > 1 && pages->used < RecordPage::kRecords &&
      buckets % kSegmentBuckets != 0 && buckets != kFirstBuckets)
    give_back(take_fresh_record());
  return record;
}

// Takes a record that was never in use. Writes the fields in an order that lets visit_standing()
// read the pages at any time.
TableStore::Record* TableStore::take_fresh_record() {
  if (!has_fresh()) {
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
  record->size = 0;  // the page's old contents may equal kLarge here
  std::atomic_signal_fence(std::memory_order_release);
  pages->used++;
  return record;
}

// Adds a bucket, if there is memory for it, by splitting an existing one.
void TableStore::grow() {
  if (buckets == kMaxBuckets) return;
  if ((buckets == kFirstBuckets || buckets % kSegmentBuckets == 0) && !add_segment()) return;
  const uint32_t level = std::bit_floor(buckets);
  linear_split(
      bucket(buckets - level), bucket(buckets),
      [this, level](const Record* record) {
        return (hash_of(record->object()) & (2 * level - 1)) == buckets;
      },
      [](const Record* record) { return record->next(); },
      [](Record* record, Record* next) { record->set_next(next); });
  buckets++;
  half_mask = std::bit_floor(buckets) - 1;
  mask = 2 * half_mask + 1;
}

bool TableStore::add_segment() {
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

bool TableStore::add_first_segment() {
  void* const page = trace_page_take();
  if (!page) return false;
  only = segment_of(page, 0);
  std::ranges::copy(first, only);
  return true;
}

void TableStore::copy_segments(uint32_t segments) {
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

void TableStore::release(const RecordPage* kept) {
  while (pages != kept) trace_page_free(std::exchange(pages, pages->next));
  if (buckets == kFirstBuckets) return;
  const uint32_t segments = (buckets + kSegmentBuckets - 1) / kSegmentBuckets;
  for (uint32_t i = 0; i < segments; i++) trace_page_free(page_of(directory[i], i));
  if (directory == &only) return;
  if (Segment* const other = DirectoryHeader::of(directory).other) DirectoryHeader::free(other);
  DirectoryHeader::free(directory);
}

// Allocates a larger directory if one is needed soon, or frees the smaller one if it has been
// copied. Bound: one block from the arena. The shard may be emptied while its lock is not held, so
// the directory is checked again after the allocation.
void TraceTable::tend_directory(Shard& shard) {
  Store::Segment* unneeded = nullptr;
  size_t wanted = 0;  // bytes
  {
    Guard guard(shard.lock);
    Store& store = shard.store;
    store.tend = false;
    if (store.directory == &store.only) return;
    Store::DirectoryHeader& header = Store::DirectoryHeader::of(store.directory);
    if (header.copied == Store::DirectoryHeader::kAllCopied) {
      unneeded = std::exchange(header.other, nullptr);
      header.copied = 0;
    } else if (!header.other) {
      wanted = 2 * header.size();
    }
  }
  if (unneeded) Store::DirectoryHeader::free(unneeded);
  void* const block = wanted > 0 ? trace_block_take(wanted) : nullptr;
  if (!block) return;
  Store::Segment* const larger = Store::DirectoryHeader::make(block, wanted);
  {
    Guard guard(shard.lock);
    if (shard.store.directory != &shard.store.only) {
      Store::DirectoryHeader& header = Store::DirectoryHeader::of(shard.store.directory);
      if (!header.other && 2 * header.size() == wanted) {
        header.other = larger;
        return;
      }
    }
  }
  Store::DirectoryHeader::free(larger);
}
