// Walks of page tables by physical addresses, for searches of all memory.
#pragma once

#include "lib/units.h"

// Set in a user page's entry that is not present but keeps its page.
inline constexpr uint64_t kKeptEntry = 1 << 9;

struct TableVisitor {
  // A page that is a table. True: walk it.
  virtual bool table(PhysAddr page) = 0;
  // A page that is mapped.
  virtual void page(PhysAddr page) = 0;

 protected:
  ~TableVisitor() = default;
};

// Walks the tables of user space below `root` (PageTables::root()), and the root itself. The
// visitor must reject tables that change meanwhile, or have been freed.
void walk_user_tables(PhysAddr root, TableVisitor& visitor);
// Visits all tables of the kernel's virtual range, but not the pages that they map. All other CPUs
// are stopped, or do not change these tables.
void walk_kernel_tables(void (*table)(PhysAddr page, void* argument), void* argument);
// Visits the pages of the stacks on which CPUs were started; the boot CPU's are in the image. Same
// context.
void walk_cpu_stacks(void (*page)(PhysAddr page, void* argument), void* argument);

// True if an address, which may be any number, is mapped in the kernel's half.
bool is_kernel_mapped(uint64_t address);
// The CPU's own stack that an address lies in; name nullptr: none.
struct CpuStack {
  const char* name;  // the CPU's use of it; "": the CPU started on it
  unsigned cpu;
  uint64_t below_top;  // bytes
};
CpuStack find_cpu_stack(uint64_t address);
