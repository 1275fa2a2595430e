// Page tables: kernel mappings, and the hardware side of a user address space.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "arch/x86_64/tlb_check.h"
#include "lib/result.h"
#include "lib/units.h"

inline constexpr uint64_t kDirectMapBase = 0xffff800000000000;
// The kernel's virtual range. The arena `kernel_virtual` allocates its addresses, for kernel stacks
// and device memory.
inline constexpr uint64_t kKernelVirtualBase = 0xffffc00000000000;
// Bytes at the start of this range that the arena does not have. Interrupt controllers and the code
// that text_write() patches are mapped there.
inline constexpr uint64_t kKernelVirtualReserved = 2 << 20;
inline constexpr uint64_t kKernelVirtualSize = uint64_t{1} << 40;
// The screen's memory is mapped here (screen.cc).
inline constexpr uint64_t kScreenBase = kKernelVirtualBase + kKernelVirtualSize;
inline constexpr uint64_t kKernelImageBase = 0xffffffff80000000;
inline constexpr uint64_t kUserEnd = 0x00007ffffffff000;

inline void* direct_map(PhysAddr address) {
  return reinterpret_cast<void*>(kDirectMapBase + address.value);
}
// Translates an address in the direct map. Other addresses are not allowed.
inline PhysAddr direct_map_phys(const void* address) {
  return {reinterpret_cast<uint64_t>(address) - kDirectMapBase};
}

enum class Planted : uint32_t;  // core/planted.h

// kScreen is write-combining: the processor may gather writes before it sends them on.
enum class Access : uint8_t { kRead, kReadWrite, kReadExecute, kDevice, kScreen };

// Maps `size` bytes (a multiple of a page) in the kernel virtual range. Page tables come from the
// page arena; ENOMEM if the arena has no page. Interrupts may be off.
Result<void> map_kernel(uint64_t address, PhysAddr physical, size_t size, Access access);
// Removes a mapping. When the function returns, no CPU uses the mapping any more. Interrupts must
// be on.
void unmap_kernel(uint64_t address, size_t size);

// Writes `size` bytes (at most a page) of the kernel's code, byte by byte, through a temporary
// mapping. Any context but NMI. The caller must take care of CPUs that run the code meanwhile
// (text_patch.h).
void text_write(uint64_t address, const uint8_t* bytes, size_t size);

// Replaces the boot page tables by the final ones (image with W^X, direct map, interrupt
// controllers). Called once, on the boot CPU, before the allocator is initialised. Table pages
// come from early_alloc until paging_use_page_arena is called.
void paging_init();
void paging_use_page_arena();
// Returns the name of the stack whose guard page contains the address; nullptr if none does.
const char* guard_page_name(uint64_t address);

// The page tables of one user address space. The owner serialises all calls except `activate` with
// its own sleeping lock. Each change of an entry invalidates the page's translation on this CPU.
// Other CPUs may use the old translation until flush() has returned.
class PageTables {
 public:
  static Result<PageTables> create();
  PageTables() = default;
  // Only for tables that are active on no CPU.
  PageTables(PageTables&& other) noexcept : root_(other.root_), count_(other.count()) {
    other.root_ = {};
  }
  PageTables& operator=(PageTables&& other) noexcept;
  // Frees the tables, but not the pages that are mapped. The tables must be active on no CPU.
  ~PageTables();

  struct Entry {
    PhysAddr physical;
    bool present = false;
    bool readable = false;  // false: no access; the entry only stores the page (protect())
    bool writable = false;
    bool executable = false;
    bool dirty = false;    // written since the page was mapped or clean() was called
    bool is_lent = false;  // the value that was given to map()
  };
  // Maps one 4 KiB page of user space in place of an old mapping, if any. `is_lent` has no meaning
  // here: it is stored in the entry for the caller (Entry::is_lent). ENOMEM.
  Result<void> map(uint64_t address, PhysAddr physical, bool writable, bool executable,
                   bool is_lent = false);
  // The result's `present` is false if nothing is mapped at the address.
  Entry lookup(uint64_t address) const;
  // Removes the entry of one page, and returns the old entry.
  Entry unmap(uint64_t address);
  // Removes page tables that map nothing any more, for addresses in [start, end). `start` and `end`
  // are multiples of a page. Calls take(argument, table, address) for each removed table, where
  // `address` is one that the table translated. Other CPUs may still cache the way to the table,
  // even if it has mapped no page for long. So the caller frees the table only after a flush() of a
  // range that contains `address`.
  using TakeTable = void (*)(void* argument, PhysAddr table, uint64_t address);
  void remove_empty(uint64_t start, uint64_t end, TakeTable take, void* argument);
  // Makes a present page read-only.
  void write_protect(uint64_t address);
  // Clears the dirty bit. Until flush() has returned, another CPU that has cached the entry may
  // write to the page without setting the bit again.
  void clean(uint64_t address);
  // Sets the access to a present page. If the page is not readable, user mode cannot access it at
  // all, but for_each and lookup still find it.
  void protect(uint64_t address, bool readable, bool writable, bool executable);
  // Calls visit(address, entry) for each present page in [start, end), in order.
  template <typename Visit>
  void for_each(uint64_t start, uint64_t end, Visit visit) const;
  // Invalidates cached translations of addresses in [start, end) on all other CPUs on which the
  // tables are active. Interrupts only these CPUs. The caller has interrupts on and holds no
  // spinlock.
  void flush(uint64_t start, uint64_t end) const;
  // Panics if a CPU may still use a translation that a change has made invalid. Does nothing
  // without CONFIG_TLB_CHECK (tlb_check.h).
  void check() const { check_translations(root_, 0, kUserEnd); }
  // The number of times that the CPU has invalidated translations for a flush() of another CPU.
  // For tests. Any context.
  static uint64_t flushes(CpuId cpu);
  // Loads the tables on this CPU, even if they were active here, and so invalidates all the CPU's
  // translations of user space. Interrupts off (context switch).
  void activate();
  // Loads the kernel's own tables, which map no user space. Interrupts off.
  static void activate_kernel();
  explicit operator bool() const { return root_.value != 0; }
  // The number of tables, without the root. Any context.
  uint64_t count() const { return count_.load(std::memory_order_relaxed); }
  // The root table; 0: none. For table_walk.h.
  PhysAddr root() const { return root_; }

 private:
  // Returns the first present page in [*address, end), and sets *address to the page's address. If
  // there is none, `present` is false in the result.
  Entry next_present(uint64_t* address, uint64_t end) const;
  // Called after each change of an entry for a page: invalidates the translation on this CPU. The
  // planted bug `omission` leaves the invalidation out.
  void changed(uint64_t address, uint64_t before, uint64_t after, Planted omission);
  // Loads `tables`; nullptr: the kernel's.
  static void load(PageTables* tables);

  PhysAddr root_{};
  std::atomic<uint64_t> count_{0};
  std::atomic<uint64_t> cpus_{0};  // a bit for each CPU on which the tables are active
};

template <typename Visit>
void PageTables::for_each(uint64_t start, uint64_t end, Visit visit) const {
  for (uint64_t address = start; address < end; address += kPageSize) {
    const Entry entry = next_present(&address, end);
    if (!entry.present) return;
    visit(address, entry);
  }
}
