// Address spaces.
//
// A space has a list of regions, which say what may be mapped, and page tables, which say what is
// mapped. A page is allocated at the first fault that needs it: zeroed, or filled from the
// program's file. A page that several spaces share after fork is mapped read-only in all of them,
// and Page::mappings counts these spaces. A space that writes to a shared page gets a copy. If only
// one space still maps the page, a write makes the page itself writable. Only a space that maps a
// page can increase the page's count (by fork), so a count of one stays one while this space
// examines it.
//
// Pages of files belong to the file (Device::page, ns/page_cache.h), and all spaces share them. In
// a shared map, such a page is read-only until the first store, of which the file's device learns
// (Device::stored). In a private map, it is read-only until a write copies the page. A page of code
// with probes is copied too, since other users of the file must not hit its breakpoints. If a
// segment of a program ends inside of a page, the space gets a page of its own, with zeros after
// the segment's end. When a file changes, pages of the file are removed from all spaces
// (address_space_walk.cc). Before this removal, FilePage::changes is incremented. So a space that
// has looked a page up, but has not mapped the page yet, detects the change.
//
// Several tasks may run in a space at once, and each may change the space: the mutex serialises
// changes. Other CPUs on which the space is active may cache translations that a change makes
// invalid. So pages and tables that a change removes are first collected (Removal). Then these CPUs
// are interrupted and invalidate the translations. Only after that are the pages and tables freed.
// If a page becomes less writable or is replaced, these CPUs are interrupted, too. If a page
// becomes present or more writable, no CPU is interrupted: a CPU with the old translation faults,
// and the fault invalidates the translation. If the space is active on no other CPU, none is
// interrupted (PageTables::flush).
//
// The mutex is not held while a file is read for a fault. Another task may replace the region
// meanwhile, so the fault looks the region up again. Code that holds the mutex never accesses user
// memory and closes no file: removed regions are destroyed after the mutex has been released. A
// list of all spaces lets probes and the page cache find them; the list holds no references.
//
// The stack's region has its full size from the start, and its pages are made on use. Memory is
// overcommitted: a program may map more memory than the machine has. If a fault gets no memory, a
// process is killed (out_of_memory.cc).
#include "proc/address_space_impl.h"

#include <algorithm>

#include "abi/syscall.h"
#include "arch/x86_64/table_walk.h"
#include "core/planted.h"
#include "kmalloc.h"
#include "lib/string.h"
#include "pages.h"
#include "proc/user_probes_impl.h"
#include "reach/reach.h"

namespace {

constinit ObjectCache<AddressSpace> space_cache;

bool allows(const VmRegion& region, FaultAccess access) {
  switch (access) {
    case FaultAccess::kRead:
      return region.protection != 0;
    case FaultAccess::kWrite:
      return region.protection & ABI_PROT_WRITE;
    case FaultAccess::kExecute:
      return region.protection & ABI_PROT_EXEC;
  }
  return false;
}

// A page that is about to be mapped. Its count of mappings includes this mapping already. The
// destructor drops the mapping from the count unless release() was called.
class NewPage {
 public:
  static NewPage with_mapping(PhysAddr page) { return NewPage(page); }
  static Result<NewPage> make(int flags) {
    const PhysAddr physical = TRY(page_alloc(flags));
    page_of(physical)->mappings.store(1, std::memory_order_relaxed);
    return NewPage(physical);
  }
  NewPage(NewPage&& other) noexcept : physical_(std::exchange(other.physical_, PhysAddr{})) {}
  ~NewPage() {
    if (physical_.value) page_unmapped(physical_);
  }
  PhysAddr physical() const { return physical_; }
  char* bytes() const { return static_cast<char*>(direct_map(physical_)); }
  // Called when the page is mapped: the mapping now belongs to the page tables.
  void release() { physical_ = {}; }

 private:
  explicit NewPage(PhysAddr physical) : physical_(physical) {}
  PhysAddr physical_;
};

Result<void> read_file(Chan& file, uint64_t offset, char* to, size_t size) {
  while (size > 0) {
    const size_t got = TRY(file.device->read(file, to, size, offset));
    if (got == 0) return {};  // the file is shorter now: the rest stays zero
    to += got;
    offset += got;
    size -= got;
  }
  return {};
}

}  // namespace

// For the search for reachable memory (reach/reach.h): page tables hold physical addresses, so they
// are walked, not searched for pointers.
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
  vm_region_cache.init("vm_region");
}

Result<Ref<AddressSpace>> AddressSpace::create() {
  Ref<AddressSpace> space = Ref<AddressSpace>::first(TRY(space_cache.make(KM_SLEEP)));
  space->tables_ = TRY(PageTables::create());
  return space;
}

void AddressSpace::destroy(AddressSpace* space) {
  space_cache.destroy(space);
}

AddressSpace::~AddressSpace() {
  if (all_link_.linked()) retire();
  GoneRegions gone;
  while (VmRegion* region = regions_.pop_front()) {
    tables_.for_each(region->start, region->end, [&](uint64_t, const PageTables::Entry& entry) {
      if (region->shared && entry.dirty)
        page_of(entry.physical)->mappings.fetch_or(kPageDirty, std::memory_order_relaxed);
      page_unmapped(entry.physical);
    });
    gone.list.push_back(*region);
  }
}

Result<Ref<AddressSpace>> AddressSpace::fork() {
  Ref<AddressSpace> child = TRY(create());
  child->mutex_.not_needed();  // no other task can use the child yet
  const Locked guard(*this);
  child->heap_start_ = heap_start_;
  child->break_ = break_;
  child->arguments_start = arguments_start;
  child->arguments_size = arguments_size;
  child->program = program;
  child->code_replaced_ = code_replaced();
  Removal removal(tables_);
  for (VmRegion& region : regions_) {
    child->regions_.push_back(*TRY(vm_region_part(region, region.start, region.end)));
    Result<void> result;
    tables_.for_each(
        region.start, region.end, [&](uint64_t address, const PageTables::Entry& entry) {
          if (!result) return;
          if (!page_mapped(entry.physical)) {
            result = Errno::ENOMEM;
            return;
          }
          NewPage page = NewPage::with_mapping(entry.physical);
          result = child->tables_.map(address, page.physical(), region.shared && entry.writable,
                                      entry.executable, entry.is_lent);
          if (!result) return;
          page.release();
          child->count_page(entry.is_lent);
          if (!entry.readable) child->tables_.protect(address, false, false, entry.executable);
          if (!entry.writable || region.shared) return;
          tables_.write_protect(address);
          removal.changed(address);
        });
    if (!result) return result.error();
  }
  // The parent is locked until the child is in the list of all spaces. So a walk over all spaces
  // finds each shared page in at least one of the two spaces.
  child->announce();
  return child;
}

Result<void> AddressSpace::make_writable(uint64_t page, const PageTables::Entry& entry,
                                         bool executable) {
  if ((page_of(entry.physical)->mappings.load(std::memory_order_acquire) & ~kPageNamed) == 1) {
    TRY(tables_.map(page, entry.physical, true, executable));
  } else {
    NewPage copy = TRY(NewPage::make(KM_SLEEP));
    memcpy(copy.bytes(), direct_map(entry.physical), kPageSize);
    TRY(tables_.map(page, copy.physical(), true, executable));
    copy.release();
    Removal(tables_).page(page, entry, *find(page));
  }
  if (entry.is_lent) own_.fetch_add(1, std::memory_order_relaxed);
  return {};
}

void AddressSpace::count_page(bool is_lent) {
  if (!is_lent) own_.fetch_add(1, std::memory_order_relaxed);
  const uint64_t now = resident_.fetch_add(1, std::memory_order_relaxed) + 1;
  if (now > max_resident_.load(std::memory_order_relaxed))
    max_resident_.store(now, std::memory_order_relaxed);
}

void AddressSpace::discount_page(const PageTables::Entry& removed) {
  if (!removed.is_lent) own_.fetch_sub(1, std::memory_order_relaxed);
  resident_.fetch_sub(1, std::memory_order_relaxed);
}

Result<void> AddressSpace::fault(uint64_t address, FaultAccess access) {
  const uint64_t page = page_down(address);
  Ref<Chan> file;
  uint64_t offset = 0;
  size_t bytes = 0;  // of the page that come from the file; 0: the page is already present
  {
    const Locked guard(*this);
    VmRegion* const region = find(address);
    if (!region || !allows(*region, access)) return Errno::EFAULT;
    const bool writable = region->protection & ABI_PROT_WRITE,
               executable = region->protection & ABI_PROT_EXEC;
    const PageTables::Entry entry = tables_.lookup(page);
    if (entry.present && entry.readable) {
      if (access != FaultAccess::kWrite || entry.writable) return {};
      if (!region->shared) return make_writable(page, entry, executable);
      tables_.protect(page, true, true, executable);
      file = region->file;
    } else if (!region->file || page - region->start >= region->file_bytes) {
      NewPage fresh = TRY(NewPage::make(KM_SLEEP | KM_ZERO));
      Result<void> mapped = tables_.map(page, fresh.physical(), writable, executable);
      if (!mapped) {
        if (planted(Planted::kFaultError)) fresh.release();
        return mapped;
      }
      fresh.release();
      count_page(false);
      return {};
    } else {
      const uint64_t into = page - region->start;
      file = region->file;
      offset = region->file_offset + into;
      bytes = std::min<uint64_t>(kPageSize, region->file_bytes - into);
    }
  }
  if (bytes == 0) {
    file->device->stored(*file);
    return {};
  }
  return bytes == kPageSize ? fault_from_file(address, access, *file, offset)
                            : fault_partly_from_file(address, access, *file, offset, bytes);
}

VmRegion* AddressSpace::still_wanted(uint64_t address, FaultAccess access, const Chan& file,
                                     uint64_t offset) {
  const uint64_t page = page_down(address);
  VmRegion* const region = find(address);
  const bool wanted = region && allows(*region, access) && region->file.get() == &file &&
                      region->file_offset + (page - region->start) == offset &&
                      !tables_.lookup(page).present;
  return wanted ? region : nullptr;
}

Result<void> AddressSpace::fault_from_file(uint64_t address, FaultAccess access, Chan& file,
                                           uint64_t offset) {
  Result<FilePage> found = file.device->page(file, offset / kPageSize);
  if (!found && found.error() == Errno::ENODEV)
    return fault_partly_from_file(address, access, file, offset, kPageSize);
  const FilePage of_file = TRY(std::move(found));
  if (TRY(map_page_of_file(address, access, file, offset, of_file))) file.device->stored(file);
  return {};
}

Result<bool> AddressSpace::map_page_of_file(uint64_t address, FaultAccess access, Chan& file,
                                            uint64_t offset, const FilePage& of_file) {
  const uint64_t page = page_down(address);
  NewPage shared = NewPage::with_mapping(of_file.physical);
  const Locked guard(*this);
  const VmRegion* const region = still_wanted(address, access, file, offset);
  if (!region || of_file.changes->load(std::memory_order_relaxed) != of_file.change) return false;
  const bool executable = region->protection & ABI_PROT_EXEC,
             writes = access == FaultAccess::kWrite,
             is_probed = region->code && user_probes_in_page(program, page);
  if (region->shared || (!writes && !is_probed)) {
    const bool is_lent = !region->shared;
    // A page that was only read is not writable yet, so that the first store to it faults.
    TRY(tables_.map(page, shared.physical(), region->shared && writes, executable, is_lent));
    shared.release();
    count_page(is_lent);
  } else {
    NewPage copy = TRY(NewPage::make(KM_SLEEP));
    memcpy(copy.bytes(), shared.bytes(), kPageSize);
    if (is_probed) user_probes_page_filled(program, page, copy.bytes());
    TRY(tables_.map(page, copy.physical(), region->protection & ABI_PROT_WRITE, executable));
    copy.release();
    count_page(false);
  }
  pages_read_.fetch_add(1, std::memory_order_relaxed);
  return region->shared && writes;
}

Result<void> AddressSpace::fault_partly_from_file(uint64_t address, FaultAccess access, Chan& file,
                                                  uint64_t offset, size_t bytes) {
  const uint64_t page = page_down(address);
  NewPage fresh = TRY(NewPage::make(KM_SLEEP | KM_ZERO));
  TRY(read_file(file, offset, fresh.bytes(), bytes));
  const Locked guard(*this);
  const VmRegion* const region = still_wanted(address, access, file, offset);
  if (!region ||
      std::min<uint64_t>(kPageSize, region->file_bytes - (page - region->start)) != bytes)
    return {};
  if (region->code) user_probes_page_filled(program, page, fresh.bytes());
  TRY(tables_.map(page, fresh.physical(), region->protection & ABI_PROT_WRITE,
                  region->protection & ABI_PROT_EXEC));
  fresh.release();
  count_page(false);
  pages_read_.fetch_add(1, std::memory_order_relaxed);
  return {};
}

Result<PhysAddr> AddressSpace::physical(uint64_t address, PagePin* pin) {
  if (address % sizeof(uint32_t) != 0) return Errno::EFAULT;
  for (;;) {
    TRY(fault(address, FaultAccess::kWrite));
    const Locked guard(*this);
    const PageTables::Entry entry = tables_.lookup(page_down(address));
    if (entry.present && entry.writable) {
      if (pin && find(address)->shared && !pin->take(entry.physical)) return Errno::ENOMEM;
      page_of(entry.physical)->mappings.fetch_or(kPageNamed, std::memory_order_relaxed);
      return PhysAddr{entry.physical.value + address % kPageSize};
    }
  }
}

Result<void> AddressSpace::write(uint64_t address, const void* data, size_t size) {
  const char* from = static_cast<const char*>(data);
  while (size > 0) {
    TRY(fault(address, FaultAccess::kWrite));
    const size_t into = address % kPageSize;
    const size_t part = std::min(size, kPageSize - into);
    {
      const Locked guard(*this);
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
  const Locked guard(*this);
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
