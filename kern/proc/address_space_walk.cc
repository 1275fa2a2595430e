// Walks over all address spaces, for probes and for the pages of files.
//
// A walk holds walk_lock, so that no space is destroyed, and locks the mutex of one space at a
// time. fork adds the child's space at the end of the list before it unlocks the parent's space. So
// a walk that has visited the parent before a fork reaches the child later, and misses no page.
#include "proc/address_space_impl.h"

struct AllSpaces {
  using Type = List<AddressSpace, &AddressSpace::all_link_>;
};

namespace {

constinit Mutex walk_lock{LockRank::kSpaceWalk};
constinit Spinlock spaces_lock{LockRank::kAddressSpaces};
constinit AllSpaces::Type all_spaces GUARDED_BY(spaces_lock);

bool is_of(const Ref<Chan>& chan, const AddressSpace::MappedFile& file) {
  return chan && chan->device == file.device && chan->qid.path == file.path &&
         chan->cached.load(std::memory_order_relaxed) == file.cached;
}

bool is_file_page(const PageTables::Entry& entry) {
  return page_of(entry.physical)->mappings.load(std::memory_order_relaxed) & kPageOfFile;
}

// Returns the address of page `index` of the region's file, clamped to the region.
uint64_t address_of(const VmRegion& region, uint64_t index) {
  const uint64_t first = region.file_offset / kPageSize;
  if (index <= first) return region.start;
  const uint64_t pages = (region.end - region.start) / kPageSize;
  return index - first >= pages ? region.end : region.start + (index - first) * kPageSize;
}

}  // namespace

void AddressSpace::announce() {
  const Guard guard(spaces_lock);
  all_spaces.push_back(*this);
}

void AddressSpace::retire() {
  const MutexGuard walk(walk_lock);
  const Guard guard(spaces_lock);
  all_link_.unlink();
}

template <typename Visit>
void AddressSpace::for_each_space(Visit visit) {
  const MutexGuard walk(walk_lock);
  AddressSpace* space = nullptr;
  for (;;) {
    {
      const Guard guard(spaces_lock);
      space = space ? all_spaces.next(*space) : all_spaces.front();
    }
    if (!space) return;
    visit(*space);
  }
}

template <typename Take>
void AddressSpace::unmap_pages_of_file(VmRegion& region, uint64_t start, uint64_t end, Take take) {
  Removal removal(tables_);
  tables_.for_each(start, end, [&](uint64_t address, const PageTables::Entry& entry) {
    if (!is_file_page(entry) || !take(address, entry)) return;
    const PageTables::Entry removed = tables_.unmap(address);
    removal.page(address, removed, region);
    discount_page(removed);
  });
}

void AddressSpace::visit_code(CodeVisitor& visitor) {
  const Locked guard(*this);
  for (VmRegion& region : regions_) {
    if (!region.code) continue;
    unmap_pages_of_file(
        region, region.start, region.end,
        [&](uint64_t page, const PageTables::Entry&) { return visitor.wants_own(page); });
    tables_.for_each(region.start, region.end, [&](uint64_t page, const PageTables::Entry& entry) {
      if (!is_file_page(entry))
        visitor.visit(page, static_cast<uint8_t*>(direct_map(entry.physical)));
    });
  }
}

void AddressSpace::for_each_code_page(const ProgramId& program, CodeVisitor& visitor) {
  for_each_space([&](AddressSpace& space) {
    if (space.program == program) space.visit_code(visitor);
  });
}

void AddressSpace::unmap_file(const MappedFile& file, uint64_t first) {
  for_each_space([&](AddressSpace& space) {
    const Locked guard(space);
    for (VmRegion& region : space.regions_) {
      if (!is_of(region.file, file)) continue;
      space.unmap_pages_of_file(region, address_of(region, first), region.end,
                                [](uint64_t, const PageTables::Entry&) { return true; });
    }
  });
}

Ref<Chan> AddressSpace::collect_written(const MappedFile& file, uint64_t first, uint64_t end) {
  Ref<Chan> writer;
  for_each_space([&](AddressSpace& space) {
    const Locked guard(space);
    Removal removal(space.tables_);
    for (VmRegion& region : space.regions_) {
      if (!region.shared || !region.may_write || !is_of(region.file, file)) continue;
      if (!writer) writer = region.file;
      space.tables_.for_each(
          address_of(region, first), address_of(region, end),
          [&](uint64_t address, const PageTables::Entry& entry) {
            if (!entry.dirty) return;
            space.tables_.clean(address);
            removal.changed(address);
            page_of(entry.physical)->mappings.fetch_or(kPageDirty, std::memory_order_relaxed);
          });
    }
  });
  return writer;
}

void AddressSpace::unmap_file_pages() {
  for_each_space([&](AddressSpace& space) {
    const Locked guard(space);
    for (VmRegion& region : space.regions_) {
      if (!region.file || region.program) continue;
      space.unmap_pages_of_file(
          region, region.start, region.end, [](uint64_t, const PageTables::Entry& entry) {
            return !(page_of(entry.physical)->mappings.load(std::memory_order_relaxed) &
                     (kPageOwned | kPageNamed));
          });
    }
  });
}
