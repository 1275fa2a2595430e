// Walks of page tables by physical addresses, for searches of all memory.
#pragma once

#include "lib/units.h"

inline constexpr uint64_t kPresentEntry = 1 << 0, kUserEntry = 1 << 2;
// Set in an entry of user space whose page must not be accessed (PageTables::protect): the entry is
// not present, but still has the page's address. The processor ignores the bit.
inline constexpr uint64_t kKeptEntry = 1 << 9;
inline constexpr uint64_t kNoExecuteEntry = uint64_t{1} << 63;
inline constexpr uint64_t kEntryAddress = 0x000ffffffffff000;

// Returns the page in `word` if `word` may be an entry of user space's page tables; otherwise 0.
// `word` may be any number.
inline PhysAddr page_of_user_entry(uint64_t word) {
  constexpr uint64_t kFlags = kPageSize - 1;
  const bool is_entry = (word & kUserEntry) && (word & (kPresentEntry | kKeptEntry)) &&
                        (word & ~(kEntryAddress | kFlags | kNoExecuteEntry)) == 0;
  return {is_entry ? word & kEntryAddress : 0};
}

struct TableVisitor {
  // Called for a page that is a table. Returns true if the walk shall enter the table.
  virtual bool table(PhysAddr page) = 0;
  // Called for a page that is mapped.
  virtual void page(PhysAddr page) = 0;

 protected:
  ~TableVisitor() = default;
};

// Walks the tables of user space below `root` (PageTables::root()), and the root itself. The
// visitor must reject tables that change meanwhile, or have been freed.
void walk_user_tables(PhysAddr root, TableVisitor& visitor);
// Visits all tables of the kernel's virtual range, but not the pages that these tables map. The
// caller ensures that no other CPU changes the tables meanwhile; usually, all other CPUs are
// stopped.
void walk_kernel_tables(void (*table)(PhysAddr page, void* argument), void* argument);
// Visits the pages of the stacks that belong to a CPU: the stack on which the CPU was started, and
// the stacks of double faults, NMIs and machine checks. Skips the boot CPU's stacks, because they
// are in the kernel image. Called in the same context as walk_kernel_tables().
void walk_cpu_stacks(void (*page)(PhysAddr page, void* argument), void* argument);

// True if an address, which may be any number, is mapped in the kernel's half.
bool is_kernel_mapped(uint64_t address);
// The CPU's stack that contains an address. `name` is nullptr if no CPU's stack contains the
// address.
struct CpuStack {
  const char* name;  // purpose of the stack; "" for the stack on which the CPU was started
  unsigned cpu;
  uint64_t below_top;  // bytes from the address to the top of the stack
};
CpuStack find_cpu_stack(uint64_t address);
