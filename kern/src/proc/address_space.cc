// Address spaces.
//
// A space is a list of regions, which say what may be there, and page tables, which say what is
// there. A page comes into being at the first fault that wants it: zeroed, or filled from the
// program's file. A page that several spaces share after fork is mapped read-only in all of them,
// and Page.mappings says in how many; who writes first gets a copy, who is the only one left gets
// the page itself back. Only a space that already maps a page can make its count grow (by fork), so
// a count of one stays one while the owner looks at it.
//
// Several tasks may run in a space at once, and each may change it: the mutex makes one change wait
// for the other. The other CPUs on which the space is active may hold translations that a change
// has made wrong. So what a change takes out of the tables, pages and tables, is collected
// (Removal), then these CPUs are interrupted and forget, and only then is it given back. A page
// that becomes less writable, or another page, needs the same; one that becomes present or more
// writable does not: a CPU that believes the contrary faults, and faulting makes it forget. Without
// other CPUs nobody is interrupted (PageTables::flush).
//
// The mutex is not held while a file is read for a fault, so the region is looked up again after
// that: another task may have put something else there. User memory is never touched with the mutex
// held, and no file is closed: regions that go are destroyed after it has been dropped. For probes,
// the list of all spaces lets them be found; it holds no references.
//
// The stack's region has its full size from the start, and its pages come as they are used. Nothing
// is reserved: a program that asks for more than there is gets what it asks for and is killed when
// it uses it.
#include "proc/address_space.h"

#include <algorithm>

#include "abi/syscall.h"
#include "arch/x86_64/table_walk.h"
#include "core/planted.h"
#include "kmalloc.h"
#include "lib/string.h"
#include "pages.h"
#include "proc/user_probes.h"
#include "reach/reach.h"

struct AllSpaces {
  using Type = List<AddressSpace, &AddressSpace::all_link_>;
};

namespace {

constinit Spinlock spaces_lock{LockRank::kAddressSpaces};
constinit AllSpaces::Type all_spaces GUARDED_BY(spaces_lock);

constexpr uint64_t kMmapTop = kStackTop - kStackSize - (1 << 20);  // what mmap hands out lies below

constinit ObjectCache<AddressSpace> space_cache;
constinit ObjectCache<VmRegion> region_cache;

// One space less maps the page; the last one gives it back.
void drop_page(PhysAddr physical) {
  if (page_of(physical)->mappings.fetch_sub(1, std::memory_order_acq_rel) == 1) page_free(physical);
}

// A page that nobody maps yet.
class NewPage {
 public:
  static Result<NewPage> make(int flags) {
    const PhysAddr physical = TRY(page_alloc(flags));
    page_of(physical)->mappings.store(1, std::memory_order_relaxed);
    return NewPage(physical);
  }
  NewPage(NewPage&& other) noexcept : physical_(std::exchange(other.physical_, PhysAddr{})) {}
  ~NewPage() {
    if (physical_.value) drop_page(physical_);
  }
  PhysAddr physical() const { return physical_; }
  char* bytes() const { return static_cast<char*>(direct_map(physical_)); }
  // It is mapped now.
  void release() { physical_ = {}; }

 private:
  explicit NewPage(PhysAddr physical) : physical_(physical) {}
  PhysAddr physical_;
};

Result<void> read_file(Chan& file, uint64_t offset, char* to, size_t size) {
  while (size > 0) {
    const size_t got = TRY(file.device->read(file, to, size, offset));
    if (got == 0) return {};  // the file is shorter now than it was: zeros
    to += got;
    offset += got;
    size -= got;
  }
  return {};
}

// The part [start, end) of `region`, as a region of its own, not in any space. ENOMEM.
Result<VmRegion*> part_of(const VmRegion& region, uint64_t start, uint64_t end) {
  VmRegion* const part = TRY(region_cache.make(KM_SLEEP, start, end, region.protection));
  const uint64_t before = start - region.start;
  part->heap = region.heap;
  part->code = region.code;
  part->file = region.file;
  part->file_offset = region.file_offset + before;
  part->file_bytes =
      region.file_bytes > before ? std::min(region.file_bytes - before, end - start) : 0;
  return part;
}

// Makes the region its own part [start, end).
void trim(VmRegion& region, uint64_t start, uint64_t end) {
  const uint64_t before = start - region.start;
  region.file_offset += before;
  region.file_bytes =
      region.file_bytes > before ? std::min(region.file_bytes - before, end - start) : 0;
  region.start = start;
  region.end = end;
}

// Whether the two could as well be one.
bool continues(const VmRegion& region, const VmRegion& next) {
  if (region.end != next.start || region.protection != next.protection ||
      region.heap != next.heap || region.code != next.code || region.file.get() != next.file.get())
    return false;
  const uint64_t size = region.end - region.start;
  return !region.file || (region.file_offset + size == next.file_offset &&
                          (region.file_bytes == size || next.file_bytes == 0));
}

uint64_t page_down(uint64_t address) {
  return align_down(address, kPageSize);
}

}  // namespace

// What a change takes out of the page tables. Other CPUs have forgotten it when it is given back,
// at the latest when the removal ends, before the space's mutex is dropped.
class AddressSpace::Removal {
 public:
  explicit Removal(const PageTables& tables) : tables_(tables) {}
  ~Removal() { finish(); }
  Removal(const Removal&) = delete;
  Removal& operator=(const Removal&) = delete;

  // The translation of the page at `address` is another one now.
  void changed(uint64_t address) {
    start_ = std::min(start_, address);
    end_ = std::max(end_, address + kPageSize);
  }
  // It was that of `page`, from which a mapping goes.
  void page(uint64_t address, PhysAddr page) {
    changed(address);
    add(page.value);
  }
  // All tables for [start, end) that map nothing.
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
      taken_[i] & kTable ? page_free(page) : drop_page(page);
    }
    count_ = 0;
  }

  const PageTables& tables_;
  uint64_t start_ = UINT64_MAX, end_ = 0;  // what has changed, from the beginning on
  unsigned count_ = 0;
  uint64_t taken_[kMost];
};

// Regions that are in no space any more. They may hold the last reference to a file.
class AddressSpace::GoneRegions {
 public:
  GoneRegions() = default;
  ~GoneRegions() {
    while (VmRegion* const region = list.pop_front()) region_cache.destroy(region);
  }
  GoneRegions(const GoneRegions&) = delete;
  GoneRegions& operator=(const GoneRegions&) = delete;

  Regions list;
};

// Page tables hold physical addresses.
void AddressSpace::visit_memory(const void* object, ReachVisitor& visitor) {
  struct Visitor final : TableVisitor {
    explicit Visitor(ReachVisitor& reach) : reach(reach) {}
    bool table(PhysAddr page) override { return reach.table(page); }
    void page(PhysAddr page) override { reach.page(page); }
    ReachVisitor& reach;
  } tables(visitor);
  walk_user_tables(static_cast<const AddressSpace*>(object)->tables_.root(), tables);
}

void address_space_init() {
  space_cache.init("address_space");
  reach_register_walker(space_cache.cache(), AddressSpace::visit_memory);
  region_cache.init("vm_region");
}

Result<Ref<AddressSpace>> AddressSpace::create() {
  Ref<AddressSpace> space = Ref<AddressSpace>::first(TRY(space_cache.make(KM_SLEEP)));
  space->tables_ = TRY(PageTables::create());
  return space;
}

void AddressSpace::destroy(AddressSpace* space) {
  space_cache.destroy(space);
}

AddressSpace::~AddressSpace() NO_THREAD_SAFETY_ANALYSIS {
  if (all_link_.linked()) {
    const Guard guard(spaces_lock);
    all_link_.unlink();
  }
  while (VmRegion* region = regions_.pop_front()) {
    tables_.for_each(region->start, region->end,
                     [](uint64_t, const PageTables::Entry& entry) { drop_page(entry.physical); });
    region_cache.destroy(region);
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
  VmRegion* const region = TRY(region_cache.make(KM_SLEEP, start, end, protection));
  region->code = file && (protection & ABI_PROT_EXEC) && !(protection & ABI_PROT_WRITE);
  region->file = std::move(file);
  region->file_offset = file_offset;
  region->file_bytes = file_bytes;
  {
    const MutexGuard guard(mutex_);
    if (is_free(start, end)) {
      insert(*region);
      return {};
    }
  }
  region_cache.destroy(region);
  return Errno::EINVAL;
}

Result<void> AddressSpace::add_stack_and_heap() {
  {
    const MutexGuard guard(mutex_);
    if (const VmRegion* const last = regions_.back()) heap_start_ = break_ = last->end;
  }
  return add_region(kStackTop - kStackSize, kStackTop, ABI_PROT_READ | ABI_PROT_WRITE);
}

// Nobody else knows the child yet, so its mutex is not taken.
Result<Ref<AddressSpace>> AddressSpace::fork() NO_THREAD_SAFETY_ANALYSIS {
  Ref<AddressSpace> child = TRY(create());
  const MutexGuard guard(mutex_);
  child->heap_start_ = heap_start_;
  child->break_ = break_;
  child->arguments_start = arguments_start;
  child->arguments_size = arguments_size;
  child->program = program;
  child->code_replaced_ = code_replaced();
  Removal removal(tables_);
  for (VmRegion& region : regions_) {
    child->regions_.push_back(*TRY(part_of(region, region.start, region.end)));
    Result<void> result;
    tables_.for_each(
        region.start, region.end, [&](uint64_t address, const PageTables::Entry& entry) {
          if (!result) return;
          result = child->tables_.map(address, entry.physical, false, entry.executable);
          if (!result) return;
          page_of(entry.physical)->mappings.fetch_add(1, std::memory_order_relaxed);
          child->count_page();
          if (!entry.readable) child->tables_.protect(address, false, false, entry.executable);
          if (!entry.writable) return;
          tables_.write_protect(address);
          removal.changed(address);
        });
    if (!result) return result.error();
  }
  child->announce();  // with the parent locked: a walk over all spaces comes to one of the two
  return child;
}

void AddressSpace::drop_pages(uint64_t start, uint64_t end, Removal& removal) {
  tables_.for_each(start, end, [&](uint64_t address, const PageTables::Entry& entry) {
    tables_.unmap(address);
    removal.page(address, entry.physical);
    resident_.fetch_sub(1, std::memory_order_relaxed);
  });
  removal.empty_tables(tables_, start, end);
}

Result<void> AddressSpace::unmap_locked(uint64_t start, uint64_t end, Regions& gone) {
  VmRegion* rest = nullptr;  // of a region that loses its middle: made first, so that nothing has
                             // changed when there is no memory
  if (VmRegion* const around = find(start); around && around->start < start && around->end > end) {
    rest = TRY(part_of(*around, end, around->end));
  }
  Removal removal(tables_);
  for (VmRegion& region : regions_) {
    if (region.end <= start) continue;
    if (region.start >= end) break;
    drop_pages(std::max(region.start, start), std::min(region.end, end), removal);
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
  VmRegion* const upper = TRY(part_of(*region, address, region->end));
  trim(*region, region->start, address);
  insert(*upper);
  return {};
}

// Makes one region of neighbours in [start, end], and at its edges, that differ in nothing.
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
    // From now on its pages are like those of data, without breakpoints.
    region.code = false;
    code_replaced_ = true;
    drop_pages(region.start, region.end, removal);
    return;
  }
  const bool readable = protection != 0, executable = protection & ABI_PROT_EXEC;
  tables_.for_each(region.start, region.end, [&](uint64_t address, const PageTables::Entry& entry) {
    // A page that may be written to again, but is not, is so at the next fault.
    tables_.protect(address, readable, entry.writable && (protection & ABI_PROT_WRITE), executable);
    removal.changed(address);
  });
}

Result<void> AddressSpace::protect(uint64_t address, uint64_t size, uint32_t protection) {
  if (address % kPageSize != 0 || size > kUserEnd) return Errno::EINVAL;
  const uint64_t end = address + align_up(size, kPageSize);
  if (end > kUserEnd) return Errno::ENOMEM;
  if (size == 0) return {};
  GoneRegions gone;
  const MutexGuard guard(mutex_);
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

uint64_t AddressSpace::unwritable_bytes(uint64_t address, uint64_t size) {
  const MutexGuard guard(mutex_);
  const uint64_t end = size > kUserEnd - std::min(address, kUserEnd) ? kUserEnd : address + size;
  uint64_t bytes = 0;
  for (const VmRegion& region : regions_) {
    const uint64_t from = std::max(region.start, address), to = std::min(region.end, end);
    if (from < to && !(region.protection & ABI_PROT_WRITE)) bytes += to - from;
  }
  return bytes;
}

uint64_t AddressSpace::find_room(uint64_t size) {
  // The highest gap below kMmapTop that is large enough.
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

Result<uint64_t> AddressSpace::map_anonymous(uint64_t address, uint64_t size, uint32_t protection,
                                             bool fixed) {
  if (size == 0 || size > kStackTop) return size == 0 ? Errno::EINVAL : Errno::ENOMEM;
  size = align_up(size, kPageSize);
  if (fixed && (address % kPageSize != 0 || address < kLowestUserAddress || address >= kStackTop ||
                size > kStackTop - address)) {
    return Errno::EINVAL;
  }
  VmRegion* const region = TRY(region_cache.make(KM_SLEEP, 0, 0, protection));
  Result<void> result;
  GoneRegions gone;
  {
    const MutexGuard guard(mutex_);
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
  region_cache.destroy(region);
  return result.error();
}

Result<void> AddressSpace::unmap(uint64_t address, uint64_t size) {
  if (address % kPageSize != 0 || size == 0 || address >= kUserEnd || size > kUserEnd - address)
    return Errno::EINVAL;
  GoneRegions gone;
  const MutexGuard guard(mutex_);
  return unmap_locked(address, align_up(address + size, kPageSize), gone.list);
}

uint64_t AddressSpace::move_break(uint64_t end) {
  GoneRegions gone;
  const MutexGuard guard(mutex_);
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
      Result<VmRegion*> region =
          region_cache.make(KM_SLEEP, old_top, top, ABI_PROT_READ | ABI_PROT_WRITE);
      if (!region) return break_;
      (*region)->heap = true;
      insert(**region);
    }
  }
  return break_ = end;
}

Result<void> AddressSpace::make_writable(uint64_t page, const PageTables::Entry& entry,
                                         bool executable) {
  if (page_of(entry.physical)->mappings.load(std::memory_order_acquire) == 1) {
    return tables_.map(page, entry.physical, true, executable);
  }
  NewPage copy = TRY(NewPage::make(KM_SLEEP));
  memcpy(copy.bytes(), direct_map(entry.physical), kPageSize);
  TRY(tables_.map(page, copy.physical(), true, executable));
  copy.release();
  Removal(tables_).page(page, entry.physical);
  return {};
}

void AddressSpace::count_page() {
  const uint64_t now = resident_.fetch_add(1, std::memory_order_relaxed) + 1;
  if (now > max_resident_.load(std::memory_order_relaxed))
    max_resident_.store(now, std::memory_order_relaxed);
}

Result<void> AddressSpace::fault(uint64_t address, FaultAccess access) {
  const uint64_t page = page_down(address);
  Ref<Chan> file;
  uint64_t offset = 0;
  size_t bytes = 0;
  {
    const MutexGuard guard(mutex_);
    VmRegion* const region = find(address);
    if (!region || region->protection == 0) return Errno::EFAULT;
    const bool writable = region->protection & ABI_PROT_WRITE,
               executable = region->protection & ABI_PROT_EXEC;
    if ((access == FaultAccess::kWrite && !writable) ||
        (access == FaultAccess::kExecute && !executable))
      return Errno::EFAULT;
    const PageTables::Entry entry = tables_.lookup(page);
    if (entry.present && entry.readable) {
      if (access == FaultAccess::kWrite && !entry.writable)
        return make_writable(page, entry, executable);
      return {};
    }
    const uint64_t into = page - region->start;
    if (!region->file || into >= region->file_bytes) {
      NewPage fresh = TRY(NewPage::make(KM_SLEEP | KM_ZERO));
      Result<void> mapped = tables_.map(page, fresh.physical(), writable, executable);
      if (!mapped) {
        if (planted(Planted::kFaultError)) fresh.release();
        return mapped;
      }
      fresh.release();
      count_page();
      return {};
    }
    file = region->file;
    offset = region->file_offset + into;
    bytes = std::min<uint64_t>(kPageSize, region->file_bytes - into);
  }
  NewPage fresh = TRY(NewPage::make(KM_SLEEP | KM_ZERO));
  if (Result<void> filled = read_file(*file, offset, fresh.bytes(), bytes); !filled) {
    return filled.error() == Errno::EINTR ? Errno::EINTR : Errno::EFAULT;
  }
  const MutexGuard guard(mutex_);
  const VmRegion* const region = find(address);
  const auto is_same = [&] {
    return region->file.get() == file.get() &&
           region->file_offset + (page - region->start) == offset &&
           region->file_bytes - (page - region->start) >= bytes;
  };
  if (!region || !is_same() || tables_.lookup(page).present) return {};
  if (region->code) user_probes_page_filled(program, page, fresh.bytes());
  TRY(tables_.map(page, fresh.physical(), region->protection & ABI_PROT_WRITE,
                  region->protection & ABI_PROT_EXEC));
  fresh.release();
  count_page();
  pages_read_.fetch_add(1, std::memory_order_relaxed);
  return {};
}

Result<PhysAddr> AddressSpace::physical(uint64_t address) {
  if (address % sizeof(uint32_t) != 0) return Errno::EFAULT;
  for (;;) {
    TRY(fault(address, FaultAccess::kWrite));
    const MutexGuard guard(mutex_);
    const PageTables::Entry entry = tables_.lookup(page_down(address));
    if (entry.present && entry.writable)
      return PhysAddr{entry.physical.value + address % kPageSize};
  }
}

Result<void> AddressSpace::write(uint64_t address, const void* data, size_t size) {
  const char* from = static_cast<const char*>(data);
  while (size > 0) {
    TRY(fault(address, FaultAccess::kWrite));
    const size_t into = address % kPageSize;
    const size_t part = std::min(size, kPageSize - into);
    {
      const MutexGuard guard(mutex_);
      const PageTables::Entry entry = tables_.lookup(page_down(address));
      if (!entry.present || !entry.writable) continue;
      memcpy(static_cast<char*>(direct_map(entry.physical)) + into, from, part);
    }
    address += part;
    from += part;
    size -= part;
  }
  return {};
}

size_t AddressSpace::read(uint64_t address, void* data, size_t size) {
  char* to = static_cast<char*>(data);
  size_t done = 0;
  const MutexGuard guard(mutex_);
  while (done < size && address < kUserEnd) {
    const PageTables::Entry entry = tables_.lookup(page_down(address));
    if (!entry.present) break;
    const size_t into = address % kPageSize;
    const size_t part = std::min(size - done, kPageSize - into);
    memcpy(to + done, static_cast<const char*>(direct_map(entry.physical)) + into, part);
    done += part;
    address += part;
  }
  return done;
}

bool AddressSpace::is_mapped(uint64_t address) {
  const MutexGuard guard(mutex_);
  return find(address) != nullptr;
}

AddressSpace::Sizes AddressSpace::sizes() {
  Sizes sizes{};
  const MutexGuard guard(mutex_);
  for (const VmRegion& region : regions_) {
    if (region.start >= kStackTop - kStackSize) continue;
    sizes.all += region.end - region.start;
    if (region.protection & ABI_PROT_WRITE) sizes.data += region.end - region.start;
  }
  return sizes;
}

bool AddressSpace::is_code(uint64_t address) {
  const MutexGuard guard(mutex_);
  const VmRegion* const region = find(address);
  return region && region->code;
}

void AddressSpace::announce() {
  const Guard guard(spaces_lock);
  all_spaces.push_back(*this);
}

// The first space behind `after` (nullptr: of all) that is not being given back just now.
Ref<AddressSpace> AddressSpace::next_space(const AddressSpace* after) {
  const Guard guard(spaces_lock);
  auto at = after ? ++AllSpaces::Type::Iterator(const_cast<ListNode*>(&after->all_link_))
                  : all_spaces.begin();
  for (; at != all_spaces.end(); ++at) {
    if (Ref<AddressSpace> space = Ref<AddressSpace>::try_take(*at)) return space;
  }
  return {};
}

void AddressSpace::visit_code(void (*visit)(void* argument, uint64_t page, uint8_t* bytes),
                              void* argument) {
  const MutexGuard guard(mutex_);
  for (VmRegion& region : regions_) {
    if (!region.code) continue;
    tables_.for_each(region.start, region.end, [&](uint64_t page, const PageTables::Entry& entry) {
      visit(argument, page, static_cast<uint8_t*>(direct_map(entry.physical)));
    });
  }
}

void AddressSpace::for_each_code_page(const ProgramId& program,
                                      void (*visit)(void* argument, uint64_t page, uint8_t* bytes),
                                      void* argument) {
  for (Ref<AddressSpace> space = next_space(nullptr); space; space = next_space(space.get())) {
    if (space->program == program) space->visit_code(visit, argument);
  }
}
