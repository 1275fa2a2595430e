#include "core/memory_map_impl.h"

#include <algorithm>

namespace {

uint64_t end_of(const MemoryRange& range) {
  return range.start.value + range.size;
}

// The end of [start, start + size); a range that wraps ends at the last page.
uint64_t end_without_wrap(uint64_t start, uint64_t size) {
  const uint64_t last = align_down(UINT64_MAX, kPageSize);
  return size > last - start ? last : start + size;
}

}  // namespace

void MemoryMap::erase(size_t i) {
  std::copy(ranges_ + i + 1, ranges_ + count_, ranges_ + i);
  count_--;
}

void MemoryMap::add(uint64_t start, uint64_t size) {
  uint64_t end = align_down(end_without_wrap(start, size), kPageSize);
  start = align_up(start, kPageSize);
  if (start >= end) return;
  size_t i = 0;
  while (i < count_ && end_of(ranges_[i]) < start) i++;
  while (i < count_ && ranges_[i].start.value <= end) {  // it touches or overlaps
    start = std::min(start, ranges_[i].start.value);
    end = std::max(end, end_of(ranges_[i]));
    erase(i);
  }
  if (count_ == kMaxRanges) return;
  std::copy_backward(ranges_ + i, ranges_ + count_, ranges_ + count_ + 1);
  ranges_[i] = {{start}, end - start};
  count_++;
}

void MemoryMap::remove(uint64_t start, uint64_t size) {
  if (size == 0) return;
  const uint64_t end = align_up(end_without_wrap(start, size), kPageSize);
  start = align_down(start, kPageSize);
  for (size_t i = 0; i < count_;) {
    const uint64_t low = ranges_[i].start.value, high = end_of(ranges_[i]);
    if (high <= start || low >= end) {
      i++;
      continue;
    }
    erase(i);
    if (low < start) add(low, start - low);
    if (high > end) add(end, high - end);
    i = 0;
  }
}

void MemoryMap::remove(const MemoryMap& other) {
  for (const MemoryRange& range : other.ranges()) remove(range.start.value, range.size);
}

uint64_t MemoryMap::bytes() const {
  uint64_t sum = 0;
  for (const MemoryRange& range : ranges()) sum += range.size;
  return sum;
}

uint64_t MemoryMap::end() const {
  return count_ == 0 ? 0 : end_of(ranges_[count_ - 1]);
}

bool MemoryMap::contains(uint64_t start, uint64_t size) const {
  return std::any_of(ranges_, ranges_ + count_, [&](const MemoryRange& range) {
    return start >= range.start.value && start < end_of(range) && size <= end_of(range) - start;
  });
}
