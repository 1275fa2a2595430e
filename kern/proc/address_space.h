// User memory of a process: regions, and the pages that they have so far.
#pragma once

#include <atomic>
#include <cstdint>

#include "arch/x86_64/paging.h"
#include "core/ref.h"
#include "lib/list.h"
#include "lib/result.h"
#include "ns/device.h"
#include "pages.h"
#include "proc/user_account.h"
#include "sched/task.h"

class ReachVisitor;

inline constexpr uint64_t kStackTop = kUserEnd - kPageSize;
inline constexpr uint64_t kStackSize = 8 << 20;
inline constexpr uint64_t kLowestUserAddress = 0x10000;

// A range of addresses with one protection. The first `file_bytes` bytes come from `file`, and the
// following bytes are zero. Pages are filled on first access. If the file has become shorter,
// access to pages after the file's end fails.
struct VmRegion {
  uint64_t start = 0, end = 0;
  uint32_t protection = 0;  // ABI_PROT_*
  bool heap = false;        // made by brk
  bool program = false;     // a segment of the program
  bool code = false;        // a segment of the program, executable and never written
  bool shared = false;      // writes go to the file; otherwise to a private copy
  bool may_write = true;    // `protection` may be changed to include ABI_PROT_WRITE
  Ref<Chan> file;           // open; empty for anonymous memory that is not shared
  uint64_t file_offset = 0;
  uint64_t file_bytes = 0;  // bytes from `start` on that come from `file`
  ListNode link;
  Charge charge;

  VmRegion() = default;
  VmRegion(uint64_t from, uint64_t to, uint32_t prot) : start(from), end(to), protection(prot) {}
};

// A program, identified by its file.
struct ProgramId {
  const Device* device = nullptr;
  uint64_t file = 0;  // qid path
  bool operator==(const ProgramId&) const = default;
};

enum class FaultAccess : uint8_t { kRead, kWrite, kExecute };

// The address space of one process, in which several tasks may run. Other tasks may read it while
// they hold a reference. Calls may sleep, and their callers hold no lock. Exceptions are
// activate(), activate_none(), visit_memory() and the calls that only load a counter or a flag.
class AddressSpace : public RefCounted<AddressSpace> {
 public:
  static constexpr RefKind kRefKind = RefKind::kAddressSpace;
  AddressSpace() = default;
  ~AddressSpace();
  static void destroy(AddressSpace* space);
  static Result<Ref<AddressSpace>> create();  // ENOMEM

  // Returns a copy that shares every page until the parent or the child writes to it. ENOMEM.
  Result<Ref<AddressSpace>> fork();

  // Adds the region [start, end), which is page-aligned. With a file, the first `file_bytes` bytes
  // come from the file at `file_offset`. ENOMEM; EINVAL if the region overlaps another region or
  // does not lie inside of user space.
  Result<void> add_region(uint64_t start, uint64_t end, uint32_t protection, Ref<Chan> file = {},
                          uint64_t file_offset = 0, uint64_t file_bytes = 0);
  // Adds the stack, and sets the start of the heap. Called once, after all segments have been
  // added.
  Result<void> add_stack_and_heap();

  // Argument of map(). If `file` is empty, private anonymous memory is mapped. Otherwise the pages
  // of `file` from byte `offset` on are mapped; Device::map must have been called for the file.
  struct Mapping {
    Ref<Chan> file;
    uint64_t offset = 0;
    bool shared = false;
    bool may_write = true;
  };
  // Maps `size` bytes and returns their address. With `fixed`, the result is `address`, and old
  // mappings in the range are replaced. Without `fixed`, the result is `address`, rounded down to a
  // page, if the range there is free; otherwise the address of another free range. ENOMEM, EINVAL.
  Result<uint64_t> map(uint64_t address, uint64_t size, uint32_t protection, bool fixed,
                       Mapping mapping);
  Result<uint64_t> map_anonymous(uint64_t address, uint64_t size, uint32_t protection, bool fixed) {
    return map(address, size, protection, fixed, {});
  }
  Result<void> unmap(uint64_t address, uint64_t size);
  // Changes the protection of [address, address + size). EINVAL; ENOMEM if memory is short or a
  // page of the range is not mapped; EACCES if a shared map in the range must not be written. After
  // an error the protection is unchanged.
  Result<void> protect(uint64_t address, uint64_t size, uint32_t protection);
  // With `wait`, writes the changes of shared maps in [address, address + size) back to their
  // files. Otherwise only checks the range. ENOMEM for unmapped pages, EINVAL, and the device's
  // errors.
  Result<void> sync(uint64_t address, uint64_t size, bool wait);
  // The number of bytes in the range that are mapped without write permission. Used to check the
  // data limit (ABI_RLIMIT_DATA) before the bytes become writable.
  uint64_t unwritable_bytes(uint64_t address, uint64_t size);
  // Moves the end of the heap to `end` if possible. Returns the resulting end of the heap.
  uint64_t move_break(uint64_t end);

  // Makes the page at `address` present for this access. If another task has changed the mapping
  // meanwhile, the access faults again. EFAULT if the address or the access is not allowed, ENOMEM,
  // EINTR if a signal came while a file was read, ENXIO if the file ends before the page, and other
  // errors of reading the file. ENOSPC if the file's page has kMostMappings.
  Result<void> fault(uint64_t address, FaultAccess access);
  // Returns the physical address of the four bytes at `address`. If they lie in a shared map and
  // `pin` is given, `pin` keeps the page. EFAULT if they are not writable or `address` is not a
  // multiple of 4; ENOMEM, EINTR.
  Result<PhysAddr> physical(uint64_t address, PagePin* pin = nullptr);
  // Writes to writable regions of a space that is not active yet. EFAULT, ENOMEM.
  Result<void> write(uint64_t address, const void* data, size_t size);
  // Reads from pages that are present, and stops at the first absent page. Returns the number of
  // bytes. Tasks of other processes may call this.
  size_t read(uint64_t address, void* data, size_t size);

  // True if `address` is in the program's code: mapped from its file, executable and not writable.
  // The pages of code never differ from the file, except by probes.
  bool is_code(uint64_t address);
  // True if a part of the code has been unmapped or made writable. For the space's own tasks.
  bool code_replaced() const { return code_replaced_.load(std::memory_order_relaxed); }
  // Adds the space to the list of all spaces. Called before its first page of code is present.
  void announce();
  // for_each_code_page calls these functions for a page of code at address `page`, with the page's
  // space locked.
  struct CodeVisitor {
    // Called for a page that other users of the file share. If it returns true, the page is removed
    // from the space, which gets a copy at the next fault.
    virtual bool wants_own(uint64_t page) = 0;
    // Called for a page that only the program's processes use.
    virtual void visit(uint64_t page, uint8_t* bytes) = 0;

   protected:
    ~CodeVisitor() = default;
  };
  // Visits each present page of code of all spaces of `program`. A page that several spaces share
  // is visited once in each.
  static void for_each_code_page(const ProgramId& program, CodeVisitor& visitor);

  // The identity of a mapped file. All channels of the file give the same identity.
  struct MappedFile {
    const Device* device;
    uint64_t path;             // path of the qid
    const CachedFile* cached;  // Chan::cached of the file's channels
  };
  // Removes the file's cached pages, from page `first` on, from all spaces; private copies stay.
  static void unmap_file(const MappedFile& file, uint64_t first);
  // Sets kPageDirty for pages [first, end) of the file that shared maps have written, and clears
  // the dirty bits in the page tables. Returns a channel that may write to the file, if a space has
  // one.
  static Ref<Chan> collect_written(const MappedFile& file, uint64_t first, uint64_t end);
  // Removes pages of the page cache from all spaces. Pages in segments of programs and pages with
  // kPageOwned or kPageNamed (pages.h) stay mapped.
  static void unmap_file_pages();

  // True if `address` is in a region, even without access.
  bool is_mapped(uint64_t address);
  // For limits: the number of bytes in all regions (`all`) and in writable regions (`data`). The
  // stack is not included.
  struct Sizes {
    uint64_t all, data;
  };
  Sizes sizes();
  // The number of pages that faults have taken from files so far.
  uint64_t pages_read() const { return pages_read_.load(std::memory_order_relaxed); }
  uint64_t max_resident_bytes() const {
    return max_resident_.load(std::memory_order_relaxed) * kPageSize;
  }
  uint64_t resident_bytes() const { return resident_.load(std::memory_order_relaxed) * kPageSize; }
  // Bytes of resident pages without the unchanged pages of privately mapped files, such as program
  // text: the page cache owns those pages, and they stay in memory when the space ends.
  uint64_t own_bytes() const { return own_.load(std::memory_order_relaxed) * kPageSize; }
  // Bytes of page tables.
  uint64_t table_bytes() const { return (tables_.count() + 1) * kPageSize; }
  // Shows the pages and page tables of a space to `visitor` (reach/reach.h). All CPUs are stopped.
  static void visit_memory(const void* object, ReachVisitor& visitor);
  // Activates the space on this CPU, where a task of the process runs next. Interrupts off.
  void activate() { tables_.activate(); }
  // Deactivates user space on this CPU. A space must be active on no CPU when its last reference
  // is dropped. Interrupts off.
  static void activate_none() { PageTables::activate_kernel(); }

  // The program's arguments, one after the other with their NULs. Set before the space is used.
  uint64_t arguments_start = 0, arguments_size = 0;
  // The program of the space. Set before announce().
  ProgramId program;

 private:
  using Regions = List<VmRegion, &VmRegion::link>;
  class Locked;
  class Removal;
  class GoneRegions;

  VmRegion* find(uint64_t address) REQUIRES(mutex_);
  // Returns the first region that ends above `address`.
  VmRegion* first_after(uint64_t address) REQUIRES(mutex_);
  bool is_free(uint64_t start, uint64_t end) REQUIRES(mutex_);
  void insert(VmRegion& region) REQUIRES(mutex_);
  uint64_t find_room(uint64_t size) REQUIRES(mutex_);
  // If a region contains `address`, splits the region there. ENOMEM.
  Result<void> cut(uint64_t address) REQUIRES(mutex_);
  void merge(uint64_t start, uint64_t end, Regions& gone) REQUIRES(mutex_);
  void protect_region(VmRegion& region, uint32_t protection, Removal& removal) REQUIRES(mutex_);
  // Removed regions are moved to `gone`, to be destroyed with no lock held.
  Result<void> unmap_locked(uint64_t start, uint64_t end, Regions& gone) REQUIRES(mutex_);
  // Write-protects the pages in [start, end), so that the file's device learns of the next store to
  // each of them (Device::stored).
  void protect_stored(uint64_t start, uint64_t end) REQUIRES(mutex_);
  void drop_pages(const VmRegion& region, uint64_t start, uint64_t end, Removal& removal)
      REQUIRES(mutex_);
  Result<void> make_writable(uint64_t page, const PageTables::Entry& entry, bool executable)
      REQUIRES(mutex_);

  template <typename Visit>
  static void for_each_space(Visit visit);
  void visit_code(CodeVisitor& visitor) EXCLUDES(mutex_);
  // Removes pages of [start, end) of a region from the tables, if they are pages of the page cache
  // and take(address, entry) is true.
  template <typename Take>
  void unmap_pages_of_file(VmRegion& region, uint64_t start, uint64_t end, Take take)
      REQUIRES(mutex_);
  // Does the work of fault() for pages from a file.
  Result<void> fault_from_file(uint64_t address, FaultAccess access, Chan& file, uint64_t offset)
      EXCLUDES(mutex_);
  // Maps the page that the device has given for `offset`, unless the mapping or the file has
  // changed meanwhile. True if the access is a store to a shared map.
  Result<bool> map_page_of_file(uint64_t address, FaultAccess access, Chan& file, uint64_t offset,
                                const FilePage& of_file) EXCLUDES(mutex_);
  Result<void> fault_partly_from_file(uint64_t address, FaultAccess access, Chan& file,
                                      uint64_t offset, size_t bytes) EXCLUDES(mutex_);
  // Returns the region at `address` if the region allows the access and still maps `offset` of
  // `file` there, and no page is present. Otherwise returns nullptr: the caller maps nothing, and
  // the access faults again.
  VmRegion* still_wanted(uint64_t address, FaultAccess access, const Chan& file, uint64_t offset)
      REQUIRES(mutex_);
  // Removes the space from the list of all spaces, after any walk over the list has ended.
  void retire();

  ListNode all_link_;  // under spaces_lock
  std::atomic<bool> code_replaced_{false};
  friend struct AllSpaces;

  Mutex mutex_{LockRank::kAddressSpace};
  // Under the mutex.
  Regions regions_ GUARDED_BY(mutex_);  // sorted by address
  PageTables tables_;
  uint64_t heap_start_ = 0, break_ = 0;
  void count_page(bool is_lent);
  void discount_page(const PageTables::Entry& removed);
  std::atomic<uint64_t> resident_{0}, max_resident_{0}, own_{0};  // numbers of pages
  std::atomic<uint64_t> pages_read_{0};
};

// Creates the object caches. Called once, at boot.
void address_space_init();
