// Shared by the files of address spaces. The theory is in address_space.cc.
#pragma once

#include <algorithm>

#include "kmalloc.h"
#include "pages.h"
#include "proc/address_space.h"

extern ObjectCache<VmRegion> vm_region_cache;

inline uint64_t page_down(uint64_t address) {
  return align_down(address, kPageSize);
}

// Creates a region for the part [start, end) of `region`. The new region is in no space. ENOMEM.
Result<VmRegion*> vm_region_part(const VmRegion& region, uint64_t start, uint64_t end);

// Pages and tables that a change removes from the page tables. They are freed after other CPUs have
// invalidated their translations: at the latest by the destructor, before the space's mutex is
// released.
class AddressSpace::Removal {
 public:
  explicit Removal(const PageTables& tables) : tables_(tables) {}
  ~Removal() { finish(); }
  Removal(const Removal&) = delete;
  Removal& operator=(const Removal&) = delete;

  // Records that the translation of the page at `address` has changed.
  void changed(uint64_t address) {
    start_ = std::min(start_, address);
    end_ = std::max(end_, address + kPageSize);
  }
  // Takes a page: `entry` has been removed from the tables of `region`.
  void page(uint64_t address, const PageTables::Entry& entry, const VmRegion& region) {
    if (region.shared && entry.dirty)
      page_of(entry.physical)->mappings.fetch_or(kPageDirty, std::memory_order_relaxed);
    changed(address);
    add(entry.physical, false);
  }
  // Removes all tables for [start, end) that map nothing.
  void empty_tables(PageTables& tables, uint64_t start, uint64_t end) {
    tables.remove_empty(
        start, end,
        [](void* removal, PhysAddr table) { static_cast<Removal*>(removal)->add(table, true); },
        this);
  }

 private:
  static constexpr unsigned kMost = 64;

  void add(PhysAddr page, bool is_table) {
    if (count_ == kMost) finish();
    tables_among_ |= uint64_t{is_table} << count_;
    taken_[count_++] = page;
  }
  void finish() {
    if (start_ < end_) tables_.flush(start_, end_);
    for (unsigned i = 0; i < count_; i++)
      tables_among_ >> i & 1 ? page_free(taken_[i]) : page_unmapped(taken_[i]);
    count_ = 0;
    tables_among_ = 0;
  }

  const PageTables& tables_;
  uint64_t start_ = UINT64_MAX, end_ = 0;  // range of all changes so far
  unsigned count_ = 0;
  // Plain physical addresses, so that the search for unreachable objects finds the pages on the
  // stack (reach/roots.cc).
  PhysAddr taken_[kMost];
  uint64_t tables_among_ = 0;  // bit i: taken_[i] is a table
};

// Removed regions, destroyed without the space's mutex: a region may hold the last reference to its
// file, and changes of a shared map are written back first.
class AddressSpace::GoneRegions {
 public:
  GoneRegions() = default;
  ~GoneRegions();
  GoneRegions(const GoneRegions&) = delete;
  GoneRegions& operator=(const GoneRegions&) = delete;

  Regions list;
};
