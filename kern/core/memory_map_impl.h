// A set of physical addresses, as ranges.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "lib/units.h"

struct MemoryRange {
  PhysAddr start;
  uint64_t size;
};

// The ranges are ascending, and there is a gap between any two. All bounds are multiples of a page.
class MemoryMap {
 public:
  static constexpr size_t kMaxRanges = 128;

  // Adds the whole pages in [start, start + size). Addresses that are in the set already stay. If
  // there are kMaxRanges ranges and none touches the new one, the set does not change.
  void add(uint64_t start, uint64_t size);
  // Removes all pages that [start, start + size) touches. If there is no room to split a range, the
  // upper part of that range is removed, too.
  void remove(uint64_t start, uint64_t size);
  void remove(const MemoryMap& other);
  // Takes `size` bytes, a multiple of a page, from the end of range `i`.
  void shrink(size_t i, uint64_t size) { ranges_[i].size -= size; }

  std::span<const MemoryRange> ranges() const { return {ranges_, count_}; }
  uint64_t bytes() const;
  // First address after the last range; 0 if the set is empty.
  uint64_t end() const;
  // True if all of [start, start + size) is in the set.
  bool contains(uint64_t start, uint64_t size) const;

 private:
  void erase(size_t i);

  MemoryRange ranges_[kMaxRanges] = {};
  size_t count_ = 0;
};
