// Declarations shared by address_space*.cc. The theory is in address_space.cc.
#pragma once

#include <algorithm>

#include "arch/x86_64/time.h"
#include "core/planted.h"
#include "core/sleep.h"
#include "kmalloc.h"
#include "pages.h"
#include "proc/address_space.h"

extern ObjectCache<VmRegion> vm_region_cache;

// Returns a new region, which is charged to the user of the current process. ENOMEM.
Result<VmRegion*> vm_region_make(uint64_t start, uint64_t end, uint32_t protection);

inline uint64_t page_down(uint64_t address) {
  return align_down(address, kPageSize);
}

// Returns a new region for the part [start, end) of `region`. The caller inserts it into the
// address space. ENOMEM.
Result<VmRegion*> vm_region_part(const VmRegion& region, uint64_t start, uint64_t end);

// Holds the mutex of a space. With CONFIG_TLB_CHECK, checks at the end that no CPU may still use a
// translation that became invalid meanwhile.
class SCOPED_CAPABILITY AddressSpace::Locked {
 public:
  explicit Locked(AddressSpace& space) ACQUIRE(space.mutex_)
      : guard_(space.mutex_), space_(space) {}
  ~Locked() RELEASE() { space_.tables_.check(); }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;

 private:
  MutexGuard guard_;
  AddressSpace& space_;
};

// Collects the pages that a change unmaps, and the page tables that become empty. Frees them after
// the other CPUs have invalidated their translations: each time the list is full, and in the
// destructor. The destructor must run before the space's mutex is released.
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
  // Adds the page of `entry`, which mapped `address` in `region`. The caller has already removed
  // the entry from the page tables.
  void page(uint64_t address, const PageTables::Entry& entry, const VmRegion& region) {
    if (region.shared && entry.dirty)
      page_of(entry.physical)->mappings.fetch_or(kPageDirty, std::memory_order_relaxed);
    changed(address);
    add(entry.physical, false);
  }
  // Removes the page tables for [start, end) that map nothing, and adds them to the list.
  void empty_tables(PageTables& tables, uint64_t start, uint64_t end) {
    tables.remove_empty(
        start, end,
        [](void* removal, PhysAddr table, uint64_t address) {
          if (!planted(Planted::kTlbTableRange)) static_cast<Removal*>(removal)->changed(address);
          static_cast<Removal*>(removal)->add(table, true);
        },
        this);
  }

 private:
  static constexpr unsigned kMost = 32;

  void add(PhysAddr page, bool is_table) {
    if (count_ == kMost) finish();
    tables_among_ |= uint64_t{is_table} << count_;
    taken_[count_++] = page;
  }
  void finish() {
    if (planted(Planted::kTlbSleep))
      static_cast<void>(task_sleep_until(monotonic_now() + Nanoseconds{1'000'000}));
    if (start_ < end_) tables_.flush(start_, end_);
    for (unsigned i = 0; i < count_; i++)
      tables_among_ >> i & 1 ? page_free(taken_[i]) : page_unmapped(taken_[i]);
    count_ = 0;
    tables_among_ = 0;
  }

  const PageTables& tables_;
  uint64_t start_ = UINT64_MAX, end_ = 0;  // range of all changes so far
  unsigned count_ = 0;
  // The elements are plain physical addresses, without flag bits. A Removal lives on a kernel
  // stack, and there the search for unreachable objects treats a physical address as a pointer to
  // the page (reach/roots.cc).
  PhysAddr taken_[kMost];
  uint64_t tables_among_ = 0;  // bit i: taken_[i] is a table
};

// A list of removed regions, which its destructor destroys. The destructor runs after the space's
// mutex has been released, because it writes changes of shared maps back and may drop the last
// reference to a file.
class AddressSpace::GoneRegions {
 public:
  GoneRegions() = default;
  ~GoneRegions();
  GoneRegions(const GoneRegions&) = delete;
  GoneRegions& operator=(const GoneRegions&) = delete;

  Regions list;
};
