// Address spaces: changes of the regions.
#include "core/errstr.h"
#include "core/planted.h"
#include "ns/page_cache.h"
#include "proc/address_space_impl.h"

constinit ObjectCache<VmRegion> vm_region_cache;

namespace {

// End of the heap, and of mappings without MAP_FIXED.
constexpr uint64_t kMmapTop = kStackTop - kStackSize - (1 << 20);

// Shrinks the region to its part [start, end).
void trim(VmRegion& region, uint64_t start, uint64_t end) {
  const uint64_t before = start - region.start;
  region.file_offset += before;
  region.file_bytes =
      region.file_bytes > before ? std::min(region.file_bytes - before, end - start) : 0;
  region.start = start;
  region.end = end;
}

// True if `next` continues `region`, so that they can be merged.
bool continues(const VmRegion& region, const VmRegion& next) {
  if (region.end != next.start || region.protection != next.protection ||
      region.heap != next.heap || region.program != next.program || region.code != next.code ||
      region.shared != next.shared || region.may_write != next.may_write ||
      region.file.get() != next.file.get())
    return false;
  const uint64_t size = region.end - region.start;
  return !region.file || (region.file_offset + size == next.file_offset &&
                          (region.file_bytes == size || next.file_bytes == 0));
}
}  // namespace

Result<VmRegion*> vm_region_make(uint64_t start, uint64_t end, uint32_t protection) {
  Charge charge = TRY(charge_current(Charged::kRegion));
  VmRegion* const region = TRY(vm_region_cache.make(KM_SLEEP, start, end, protection));
  region->charge = std::move(charge);
  return region;
}

Result<VmRegion*> vm_region_part(const VmRegion& region, uint64_t start, uint64_t end) {
  VmRegion* const part = TRY(vm_region_make(start, end, region.protection));
  const uint64_t before = start - region.start;
  part->heap = region.heap;
  part->program = region.program;
  part->code = region.code;
  part->shared = region.shared;
  part->may_write = region.may_write;
  part->file = region.file;
  part->file_offset = region.file_offset + before;
  part->file_bytes =
      region.file_bytes > before ? std::min(region.file_bytes - before, end - start) : 0;
  return part;
}

AddressSpace::GoneRegions::~GoneRegions() {
  while (VmRegion* const region = list.pop_front()) {
    if (region->shared && region->may_write) {
      const Result<void> synced = region->file->device->sync_pages(
          *region->file, region->file_offset, region->end - region->start, SyncErrors::kKeep);
      if (!synced) page_cache_sync_later(region->file);
    }
    vm_region_cache.destroy(region);
  }
}

VmRegion* AddressSpace::first_after(uint64_t address) {
  for (VmRegion& region : regions_) {
    if (region.end > address) return &region;
  }
  return nullptr;
}

VmRegion* AddressSpace::find(uint64_t address) {
  VmRegion* const region = first_after(address);
  return region && region->start <= address ? region : nullptr;
}

bool AddressSpace::is_free(uint64_t start, uint64_t end) {
  const VmRegion* const region = first_after(start);
  return !region || region->start >= end;
}

void AddressSpace::insert(VmRegion& region) {
  if (VmRegion* const next = first_after(region.start)) {
    Regions::insert_before(*next, region);
  } else {
    regions_.push_back(region);
  }
}

Result<void> AddressSpace::add_region(uint64_t start, uint64_t end, uint32_t protection,
                                      Ref<Chan> file, uint64_t file_offset, uint64_t file_bytes) {
  if (start < kLowestUserAddress || end <= start || end > kStackTop) return Errno::EINVAL;
  VmRegion* const region = TRY(vm_region_make(start, end, protection));
  region->program = static_cast<bool>(file);
  region->code = file && (protection & ABI_PROT_EXEC) && !(protection & ABI_PROT_WRITE);
  region->file = std::move(file);
  region->file_offset = file_offset;
  region->file_bytes = file_bytes;
  {
    const Locked guard(*this);
    if (is_free(start, end)) {
      insert(*region);
      return {};
    }
  }
  vm_region_cache.destroy(region);
  return Errno::EINVAL;
}

Result<void> AddressSpace::add_stack_and_heap() {
  {
    const Locked guard(*this);
    if (const VmRegion* const last = regions_.back()) heap_start_ = break_ = last->end;
  }
  return add_region(kStackTop - kStackSize, kStackTop, ABI_PROT_READ | ABI_PROT_WRITE);
}

void AddressSpace::drop_pages(const VmRegion& region, uint64_t start, uint64_t end,
                              Removal& removal) {
  tables_.for_each(start, end, [&](uint64_t address, const PageTables::Entry&) {
    const PageTables::Entry removed = tables_.unmap(address);
    removal.page(address, removed, region);
    discount_page(removed);
  });
  removal.empty_tables(tables_, start, end);
}

Result<void> AddressSpace::unmap_locked(uint64_t start, uint64_t end, Regions& gone) {
  // The upper part of a region that loses its middle. It is created before anything is changed, so
  // that ENOMEM leaves the space unchanged.
  VmRegion* rest = nullptr;
  if (VmRegion* const around = find(start); around && around->start < start && around->end > end) {
    rest = TRY(vm_region_part(*around, end, around->end));
  }
  Removal removal(tables_);
  for (VmRegion& region : regions_) {
    if (region.end <= start) continue;
    if (region.start >= end) break;
    drop_pages(region, std::max(region.start, start), std::min(region.end, end), removal);
    if (region.code) code_replaced_ = true;
    if (region.start >= start && region.end <= end) {
      Regions::remove(region);
      gone.push_back(region);
      continue;
    }
    trim(region, region.start < start ? region.start : end,
         region.start < start ? start : region.end);
    if (rest) {
      insert(*rest);
      break;
    }
  }
  return {};
}

Result<void> AddressSpace::cut(uint64_t address) {
  VmRegion* const region = find(address);
  if (!region || region->start == address) return {};
  VmRegion* const upper = TRY(vm_region_part(*region, address, region->end));
  trim(*region, region->start, address);
  insert(*upper);
  return {};
}

// For each region that overlaps or touches [start, end]: merges the region with the next region if
// the next region continues it.
void AddressSpace::merge(uint64_t start, uint64_t end, Regions& gone) {
  VmRegion* region = first_after(start > 0 ? start - 1 : 0);
  while (region && region->start <= end) {
    VmRegion* const next = regions_.next(*region);
    if (!next || !continues(*region, *next)) {
      region = next;
      continue;
    }
    region->file_bytes += next->file_bytes;
    region->end = next->end;
    Regions::remove(*next);
    gone.push_back(*next);
  }
}

void AddressSpace::protect_region(VmRegion& region, uint32_t protection, Removal& removal) {
  if (region.protection == protection) return;
  region.protection = protection;
  if (region.code && (protection & ABI_PROT_WRITE)) {
    // The region's pages are data from now on. Drop the present pages, because they may contain
    // breakpoints of probes.
    region.code = false;
    code_replaced_ = true;
    drop_pages(region, region.start, region.end, removal);
    return;
  }
  const bool readable = protection != 0, executable = protection & ABI_PROT_EXEC;
  tables_.for_each(region.start, region.end, [&](uint64_t address, const PageTables::Entry& entry) {
    // Only take write permission away here. If the region has become writable, each page becomes
    // writable at its next write fault.
    tables_.protect(address, readable, entry.writable && (protection & ABI_PROT_WRITE), executable);
    removal.changed(address);
  });
}

Result<void> AddressSpace::protect(uint64_t address, uint64_t size, uint32_t protection) {
  if (address % kPageSize != 0 || size > kUserEnd) return Errno::EINVAL;
  if (address >= kUserEnd || size > kUserEnd - address) return Errno::ENOMEM;
  if (size == 0) return {};
  const uint64_t end = address + align_up(size, kPageSize);
  GoneRegions gone;
  const Locked guard(*this);
  for (const VmRegion& region : regions_) {
    if ((protection & ABI_PROT_WRITE) && !region.may_write && region.start < end &&
        region.end > address)
      return fail(Errno::EACCES, "the file that is mapped there is not open for writing");
  }
  uint64_t mapped = address;
  for (VmRegion* region = find(address); region && region->start <= mapped;
       region = regions_.next(*region)) {
    mapped = region->end;
    if (mapped >= end) break;
  }
  if (mapped < end) return Errno::ENOMEM;
  TRY(cut(address));
  TRY(cut(end));
  Removal removal(tables_);
  for (VmRegion& region : regions_) {
    if (region.start >= address && region.end <= end) protect_region(region, protection, removal);
  }
  merge(address, end, gone.list);
  return {};
}

void AddressSpace::protect_stored(uint64_t start, uint64_t end) {
  Removal removal(tables_);
  tables_.for_each(start, end, [&](uint64_t address, const PageTables::Entry& entry) {
    if (!entry.writable) return;
    tables_.write_protect(address);
    removal.changed(address);
  });
}

Result<void> AddressSpace::sync(uint64_t address, uint64_t size, bool wait) {
  if (address % kPageSize != 0) return Errno::EINVAL;
  if (address >= kUserEnd || size > kUserEnd - address) return Errno::ENOMEM;
  const uint64_t end = address + align_up(size, kPageSize);
  Result<void> result;
  for (uint64_t at = address; at < end;) {
    Ref<Chan> file;
    uint64_t offset = 0, bytes = 0;
    {
      const Locked guard(*this);
      const VmRegion* const region = find(at);
      if (!region) return Errno::ENOMEM;
      bytes = std::min(region->end, end) - at;
      offset = region->file_offset + (at - region->start);
      if (region->shared && region->may_write) file = region->file;
      if (file && wait) protect_stored(at, at + bytes);
    }
    at += bytes;
    if (!file || !wait) continue;
    const Result<void> synced = file->device->sync_pages(*file, offset, bytes, SyncErrors::kTell);
    if (!synced) result = synced;
  }
  return result;
}

uint64_t AddressSpace::unwritable_bytes(uint64_t address, uint64_t size) {
  const Locked guard(*this);
  const uint64_t end = size > kUserEnd - std::min(address, kUserEnd) ? kUserEnd : address + size;
  uint64_t bytes = 0;
  for (const VmRegion& region : regions_) {
    const uint64_t from = std::max(region.start, address), to = std::min(region.end, end);
    if (from < to && !(region.protection & ABI_PROT_WRITE)) bytes += to - from;
  }
  return bytes;
}

uint64_t AddressSpace::find_room(uint64_t size) {
  // The last `size` bytes of the highest gap below kMmapTop that is large enough.
  uint64_t best = 0;
  uint64_t gap_start = std::max(kLowestUserAddress, break_);
  for (VmRegion& region : regions_) {
    const uint64_t gap_end = std::min(region.start, kMmapTop);
    if (gap_end > gap_start && gap_end - gap_start >= size) best = gap_end - size;
    gap_start = std::max(gap_start, region.end);
  }
  if (gap_start < kMmapTop && kMmapTop - gap_start >= size) best = kMmapTop - size;
  return best;
}

Result<uint64_t> AddressSpace::map(uint64_t address, uint64_t size, uint32_t protection, bool fixed,
                                   Mapping mapping) {
  if (size == 0 || size > kStackTop) return size == 0 ? Errno::EINVAL : Errno::ENOMEM;
  size = align_up(size, kPageSize);
  if (fixed && (address % kPageSize != 0 || address < kLowestUserAddress || address >= kStackTop ||
                size > kStackTop - address)) {
    return Errno::EINVAL;
  }
  VmRegion* const region = TRY(vm_region_make(0, 0, protection));
  region->shared = mapping.shared;
  region->may_write = mapping.may_write;
  region->file_offset = mapping.offset;
  region->file_bytes = mapping.file ? size : 0;
  region->file = std::move(mapping.file);
  Result<void> result;
  GoneRegions gone;
  {
    const Locked guard(*this);
    uint64_t start = page_down(address);
    if (fixed) {
      result = unmap_locked(start, start + size, gone.list);
    } else if (start < kLowestUserAddress || start >= kMmapTop || size > kMmapTop - start ||
               !is_free(start, start + size)) {
      start = find_room(size);
      if (start == 0) result = Errno::ENOMEM;
    }
    if (result) {
      region->start = start;
      region->end = start + size;
      insert(*region);
      return start;
    }
  }
  vm_region_cache.destroy(region);
  return result.error();
}

Result<void> AddressSpace::unmap(uint64_t address, uint64_t size) {
  if (address % kPageSize != 0 || size == 0 || address >= kUserEnd || size > kUserEnd - address)
    return Errno::EINVAL;
  GoneRegions gone;
  const Locked guard(*this);
  return unmap_locked(address, align_up(address + size, kPageSize), gone.list);
}

uint64_t AddressSpace::move_break(uint64_t end) {
  GoneRegions gone;
  const Locked guard(*this);
  if (end < heap_start_ || end > kMmapTop) return break_;
  const uint64_t old_top = align_up(break_, kPageSize);
  const uint64_t top = align_up(end, kPageSize);
  if (top < old_top) {
    if (!unmap_locked(top, old_top, gone.list)) return break_;
  } else if (top > old_top) {
    if (!is_free(old_top, top)) return break_;
    VmRegion* const heap = old_top > heap_start_ ? find(old_top - 1) : nullptr;
    if (heap && heap->heap && heap->protection == (ABI_PROT_READ | ABI_PROT_WRITE)) {
      heap->end = top;
    } else {
      Result<VmRegion*> region = vm_region_make(old_top, top, ABI_PROT_READ | ABI_PROT_WRITE);
      if (!region) return break_;
      (*region)->heap = true;
      insert(**region);
    }
  }
  return break_ = end;
}
bool AddressSpace::is_mapped(uint64_t address) {
  const Locked guard(*this);
  return find(address) != nullptr;
}

AddressSpace::Sizes AddressSpace::sizes() {
  Sizes sizes{};
  const Locked guard(*this);
  for (const VmRegion& region : regions_) {
    if (region.start >= kStackTop - kStackSize) continue;
    sizes.all += region.end - region.start;
    if (region.protection & ABI_PROT_WRITE) sizes.data += region.end - region.start;
  }
  return sizes;
}

bool AddressSpace::is_code(uint64_t address) {
  const Locked guard(*this);
  const VmRegion* const region = find(address);
  return region && region->code;
}
