// Walks page tables of x86-64 in a core, as kern/arch/x86_64/table_walk.cc does in the kernel.
#pragma once

#include <cstdint>

#include "memory.h"

namespace reach {

inline constexpr uint64_t kPresent = 1 << 0, kLargePage = 1 << 7;
inline constexpr unsigned kEntries = 512, kUserEntries = 256, kRootLevel = 3;

inline uint64_t physical_of(uint64_t entry) {
  return entry & 0x000ffffffffff000;
}
inline unsigned index_at(uint64_t address, unsigned level) {
  return address >> (12 + 9 * level) & (kEntries - 1);
}

// Returns the physical address that is mapped at `address`; ~0 if nothing is mapped there.
inline uint64_t mapped_at(const Memory& memory, uint64_t root, uint64_t address) {
  uint64_t at = root;
  for (unsigned level = kRootLevel;; level--) {
    const uint64_t* const table = memory.table(at);
    const uint64_t entry = table ? table[index_at(address, level)] : 0;
    if (!(entry & kPresent)) return ~uint64_t{0};
    const uint64_t page = level == 0 ? 0xfff : (uint64_t{1} << (12 + 9 * level)) - 1;
    if (level == 0 || (entry & kLargePage)) return (physical_of(entry) & ~page) | (address & page);
    at = physical_of(entry);
  }
}

// Walks the page table `table`, which has the level `level`, and the tables below it. Calls
// visit.table(physical) for each of these tables, and visit.page(physical) for each page that
// these tables map. If visit.table() returns false, skips that table's entries. In `table` itself,
// visits only the entries [first, end).
template <typename Visit>
void walk_tables(const Memory& memory, uint64_t table, unsigned level, unsigned first, unsigned end,
                 Visit& visit) {
  const uint64_t* const entry = memory.table(table);
  if (!entry || !visit.table(table)) return;
  for (unsigned i = first; i < end; i++) {
    if (!(entry[i] & kPresent)) continue;
    if (level > 0 && !(entry[i] & kLargePage)) {
      walk_tables(memory, physical_of(entry[i]), level - 1, 0, kEntries, visit);
    } else {
      visit.page(physical_of(entry[i]));
    }
  }
}

}  // namespace reach
