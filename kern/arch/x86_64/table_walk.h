// What page tables lead to, by physical addresses: for who looks at memory as a whole.
#pragma once

#include "lib/units.h"

// The bit of a user page's entry that says, if it is not present, that the page is kept there.
inline constexpr uint64_t kKeptEntry = 1 << 9;

struct TableVisitor {
  // A page that is a table. Whether to look into it.
  virtual bool table(PhysAddr page) = 0;
  // A page that is mapped.
  virtual void page(PhysAddr page) = 0;

 protected:
  ~TableVisitor() = default;
};

// The tables of user space below `root` (PageTables::root()), and the root itself. Tables that
// change meanwhile, or have been freed, must not be looked into: that is the visitor's affair.
void walk_user_tables(PhysAddr root, TableVisitor& visitor);
// The tables of the kernel's virtual range, all of which are looked into, and not what they map.
// All other CPUs are stopped, or change nothing there.
void walk_kernel_tables(void (*table)(PhysAddr page, void* argument), void* argument);
// The pages of the stacks on which CPUs were started; the boot CPU's are in the image. The same
// context.
void walk_cpu_stacks(void (*page)(PhysAddr page, void* argument), void* argument);

// Whether reading at an address, any number, of the kernel's half would find memory or a device.
bool is_kernel_mapped(uint64_t address);
// The stack of a CPU's own that an address lies in; name nullptr: none.
struct CpuStack {
  const char* name;  // what the CPU uses it for; "": it began on it
  unsigned cpu;
  uint64_t below_top;  // bytes
};
CpuStack find_cpu_stack(uint64_t address);
