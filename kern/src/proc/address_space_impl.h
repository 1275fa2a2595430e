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

// Makes a region of the part [start, end) of `region`, which is in no space. ENOMEM.
Result<VmRegion*> vm_region_part(const VmRegion& region, uint64_t start, uint64_t end);

// Pages and tables that a change removes from the page tables. They are freed after other CPUs have
// invalidated them, at the latest at the removal's end, before the space's mutex is released.
class AddressSpace::Removal {
 public:
  explicit Removal(const PageTables& tables) : tables_(tables) {}
  ~Removal() { finish(); }
  Removal(const Removal&) = delete;
  Removal& operator=(const Removal&) = delete;

  // The translation of the page at `address` has changed.
  void changed(uint64_t address) {
    start_ = std::min(start_, address);
    end_ = std::max(end_, address + kPageSize);
  }
  // It was `entry`, which has been removed from the tables of `region`.
  void page(uint64_t address, const PageTables::Entry& entry, const VmRegion& region) {
    if (region.shared && entry.dirty)
      page_of(entry.physical)->mappings.fetch_or(kPageDirty, std::memory_order_relaxed);
    changed(address);
    add(entry.physical.value);
  }
  // Removes all tables for [start, end) that map nothing.
  void empty_tables(PageTables& tables, uint64_t start, uint64_t end) {
    tables.remove_empty(
        start, end,
        [](void* removal, PhysAddr table) {
          static_cast<Removal*>(removal)->add(table.value | kTable);
        },
        this);
  }

 private:
  static constexpr uint64_t kTable = 1;
  static constexpr unsigned kMost = 64;

  void add(uint64_t what) {
    if (count_ == kMost) finish();
    taken_[count_++] = what;
  }
  void finish() {
    if (start_ < end_) tables_.flush(start_, end_);
    for (unsigned i = 0; i < count_; i++) {
      const PhysAddr page{align_down(taken_[i], kPageSize)};
      taken_[i] & kTable ? page_free(page) : page_unmapped(page);
    }
    count_ = 0;
  }

  const PageTables& tables_;
  uint64_t start_ = UINT64_MAX, end_ = 0;  // range of all changes since the beginning
  unsigned count_ = 0;
  uint64_t taken_[kMost];
};

// Removed regions. They may hold the last reference to a file; their changes of it are written
// back.
class AddressSpace::GoneRegions {
 public:
  GoneRegions() = default;
  ~GoneRegions();
  GoneRegions(const GoneRegions&) = delete;
  GoneRegions& operator=(const GoneRegions&) = delete;

  Regions list;
};
