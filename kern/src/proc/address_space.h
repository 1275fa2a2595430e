// User memory of a process: regions, and the pages that they have got so far.
#pragma once

#include <atomic>
#include <cstdint>

#include "arch/x86_64/paging.h"
#include "core/ref.h"
#include "lib/list.h"
#include "lib/result.h"
#include "ns/device.h"
#include "sched/task.h"

class ReachVisitor;

inline constexpr uint64_t kStackTop = kUserEnd - kPageSize;
inline constexpr uint64_t kStackSize = 8 << 20;
inline constexpr uint64_t kLowestUserAddress = 0x10000;

// A range of addresses with one protection. Pages that it has not got yet come from `file`, as far
// as `file_bytes` reaches, and are zero beyond. Where a file ends before that, there are none.
struct VmRegion {
  uint64_t start = 0, end = 0;
  uint32_t protection = 0;  // ABI_PROT_*
  bool heap = false;        // made by brk
  bool program = false;     // a segment of the program
  bool code = false;        // the same, to be executed and never written to
  bool shared = false;      // what is written goes to the file; otherwise to a copy
  bool may_write = true;    // whether `protection` may come to have ABI_PROT_WRITE
  Ref<Chan> file;           // open; empty for anonymous memory that is not shared
  uint64_t file_offset = 0;
  uint64_t file_bytes = 0;  // from `start`
  ListNode link;

  VmRegion() = default;
  VmRegion(uint64_t from, uint64_t to, uint32_t prot) : start(from), end(to), protection(prot) {}
};

// A program, by its file.
struct ProgramId {
  const Device* device = nullptr;
  uint64_t file = 0;  // qid path
  bool operator==(const ProgramId&) const = default;
};

enum class FaultAccess : uint8_t { kRead, kWrite, kExecute };

// The address space of one process, of which several tasks may run in it; others may read it with a
// reference. Every call but activate() may sleep, and no lock is held.
class AddressSpace : public RefCounted<AddressSpace> {
 public:
  static constexpr RefKind kRefKind = RefKind::kAddressSpace;
  AddressSpace() = default;
  ~AddressSpace();
  static void destroy(AddressSpace* space);
  static Result<Ref<AddressSpace>> create();  // ENOMEM

  // A copy that shares every page until one of the two writes. ENOMEM.
  // Not analysed: nobody else has the copy yet.
  Result<Ref<AddressSpace>> fork() NO_THREAD_SAFETY_ANALYSIS;

  // Adds [start, end), page-aligned, inside user space and where nothing is. ENOMEM; EINVAL when it
  // overlaps or is outside. With a file the first `file_bytes` bytes come from there, from
  // `file_offset` on.
  Result<void> add_region(uint64_t start, uint64_t end, uint32_t protection, Ref<Chan> file = {},
                          uint64_t file_offset = 0, uint64_t file_bytes = 0);
  // The stack, and where the heap begins. Once, when all segments are there.
  Result<void> add_stack_and_heap();

  // For map(): anonymous memory of the space's own, or pages from `offset` on of a file that has
  // been prepared (Device::map).
  struct Mapping {
    Ref<Chan> file;
    uint64_t offset = 0;
    bool shared = false;
    bool may_write = true;
  };
  // `size` bytes of it at `address` (with `fixed`, in place of what was there) or where there is
  // room. ENOMEM, EINVAL.
  Result<uint64_t> map(uint64_t address, uint64_t size, uint32_t protection, bool fixed,
                       Mapping mapping);
  Result<uint64_t> map_anonymous(uint64_t address, uint64_t size, uint32_t protection, bool fixed) {
    return map(address, size, protection, fixed, {});
  }
  Result<void> unmap(uint64_t address, uint64_t size);
  // Changes what may be done with [address, address + size). ENOMEM, also where nothing is mapped;
  // EACCES where a shared map must not be written to; then nothing has changed. EINVAL.
  Result<void> protect(uint64_t address, uint64_t size, uint32_t protection);
  // Has shared maps in [address, address + size) write back what they have changed; `wait`: before
  // it returns. ENOMEM where nothing is mapped, EINVAL, and the device's errors.
  Result<void> sync(uint64_t address, uint64_t size, bool wait);
  // Bytes of it that cannot be written to now, for limits.
  uint64_t unwritable_bytes(uint64_t address, uint64_t size);
  // The end of the heap, moved to `end` if that is possible; 0 asks.
  uint64_t move_break(uint64_t end);

  // Makes the page at `address` present for this access, or finds that another task has changed
  // what is there meanwhile: then the access faults again. EFAULT if the address or the access is
  // not allowed, ENOMEM, EINTR when a signal came while a file was read; ENXIO: the file ends
  // before it, and other errors of reading it.
  Result<void> fault(uint64_t address, FaultAccess access);
  // Where the four bytes at `address`, which can be written and are aligned, lie in memory. EFAULT,
  // ENOMEM, EINTR.
  Result<PhysAddr> physical(uint64_t address);
  // Writes where a region can be written, from outside: for a space that is not active yet. EFAULT,
  // ENOMEM.
  Result<void> write(uint64_t address, const void* data, size_t size);
  // Reads pages that are present, from outside; ends at the first that is not.
  size_t read(uint64_t address, void* data, size_t size);

  // True if `address` is in the program's code: what was mapped from its file to be executed and
  // not written to. No page of it ever differs from the file, but by probes.
  bool is_code(uint64_t address);
  // True if any of the code has been unmapped. For the space's own tasks.
  bool code_replaced() const { return code_replaced_.load(std::memory_order_relaxed); }
  // Others may find the space from now on. Before its first page of code.
  void announce();
  // Called by a walk over code for its pages, each at address `page`, with its space locked.
  struct CodeVisitor {
    // A page that others of the file share, and that the space then has not, so that it gets one of
    // its own at the next fault: whether that is wanted.
    virtual bool wants_own(uint64_t page) = 0;
    // A page of the program's processes.
    virtual void visit(uint64_t page, uint8_t* bytes) = 0;

   protected:
    ~CodeVisitor() = default;
  };
  // Visits each present page of code of all spaces of `program`. A page that several share is
  // visited several times.
  static void for_each_code_page(const ProgramId& program, CodeVisitor& visitor);

  // A file as spaces map it: what channels of it have in common.
  struct MappedFile {
    const Device* device;
    uint64_t path;             // of the qid
    const CachedFile* cached;  // Chan::cached
  };
  // Takes the file's own pages, from page `first` on, out of all spaces.
  static void unmap_file(const MappedFile& file, uint64_t first);
  // Pages [first, end) of the file that shared maps have written to get kPageDirty; the maps note
  // anew from now on. A channel that may write to the file, if a space has one.
  static Ref<Chan> collect_written(const MappedFile& file, uint64_t first, uint64_t end);
  // Takes pages of the page cache out of all spaces, but programs' own segments.
  static void unmap_file_pages();

  // True if `address` is in a region, even one that nobody may touch.
  bool is_mapped(uint64_t address);
  // Bytes of all regions, and of those that can be written, for limits; without the stack.
  struct Sizes {
    uint64_t all, data;
  };
  Sizes sizes();
  // Pages that came from a file so far.
  uint64_t pages_read() const { return pages_read_.load(std::memory_order_relaxed); }
  uint64_t max_resident_bytes() const {
    return max_resident_.load(std::memory_order_relaxed) * kPageSize;
  }
  uint64_t resident_bytes() const { return resident_.load(std::memory_order_relaxed) * kPageSize; }
  // Shows the pages and page tables of a space (reach/reach.h). All CPUs are stopped.
  static void visit_memory(const void* object, ReachVisitor& visitor) NO_THREAD_SAFETY_ANALYSIS;
  // This CPU's from now on, on which a task of the process is to run next. Interrupts off.
  void activate() { tables_.activate(); }
  // This CPU has no user space from now on. Before the last reference goes the space is active on
  // no CPU. Interrupts off.
  static void activate_none() { PageTables::activate_kernel(); }

  // Where the program's arguments stand, one after the other with their NULs. Set before the space
  // is used.
  uint64_t arguments_start = 0, arguments_size = 0;
  // Its program. Set before announce().
  ProgramId program;

 private:
  using Regions = List<VmRegion, &VmRegion::link>;
  class Removal;
  class GoneRegions;

  VmRegion* find(uint64_t address) REQUIRES(mutex_);
  // The first region that ends above `address`.
  VmRegion* first_after(uint64_t address) REQUIRES(mutex_);
  bool is_free(uint64_t start, uint64_t end) REQUIRES(mutex_);
  void insert(VmRegion& region) REQUIRES(mutex_);
  uint64_t find_room(uint64_t size) REQUIRES(mutex_);
  // Makes `address` a place where a region begins, if there is one. ENOMEM.
  Result<void> cut(uint64_t address) REQUIRES(mutex_);
  void merge(uint64_t start, uint64_t end, Regions& gone) REQUIRES(mutex_);
  void protect_region(VmRegion& region, uint32_t protection, Removal& removal) REQUIRES(mutex_);
  // Regions that are left over come into `gone`, to be destroyed with no lock held.
  Result<void> unmap_locked(uint64_t start, uint64_t end, Regions& gone) REQUIRES(mutex_);
  void drop_pages(const VmRegion& region, uint64_t start, uint64_t end, Removal& removal)
      REQUIRES(mutex_);
  Result<void> make_writable(uint64_t page, const PageTables::Entry& entry, bool executable)
      REQUIRES(mutex_);

  template <typename Visit>
  static void for_each_space(Visit visit);
  void visit_code(CodeVisitor& visitor) EXCLUDES(mutex_);
  // Takes pages of [start, end) of a region, which are a file's own and of which take(entry) is
  // true, out of the tables.
  template <typename Take>
  void unmap_pages_of_file(VmRegion& region, uint64_t start, uint64_t end, Take take)
      REQUIRES(mutex_);
  // fault(), where pages come from a file.
  Result<void> fault_from_file(uint64_t address, FaultAccess access, Ref<Chan> file,
                               uint64_t offset) EXCLUDES(mutex_);
  Result<void> fault_partly_from_file(uint64_t address, FaultAccess access, Ref<Chan> file,
                                      uint64_t offset, size_t bytes) EXCLUDES(mutex_);
  // The region at `address`, if it allows the access and `offset` of `file` is still there, so that
  // a page may be mapped; nullptr: it is to be faulted for again.
  VmRegion* still_wanted(uint64_t address, FaultAccess access, const Chan& file, uint64_t offset)
      REQUIRES(mutex_);
  // Leaves the list of all; no walk is looking at it any more.
  void retire();

  ListNode all_link_;  // under a lock of its own
  std::atomic<bool> code_replaced_{false};
  friend struct AllSpaces;

  Mutex mutex_{LockRank::kAddressSpace};
  // Under the mutex.
  Regions regions_ GUARDED_BY(mutex_);  // by address
  PageTables tables_;
  uint64_t heap_start_ = 0, break_ = 0;
  void count_page();
  std::atomic<uint64_t> resident_{0}, max_resident_{0};  // pages
  std::atomic<uint64_t> pages_read_{0};
};

// Caches. Once.
void address_space_init();
