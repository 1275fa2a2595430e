// Page tables of the kernel's virtual range.
#pragma once

#include <cstdint>

#include "lib/units.h"

// Bytes of page tables that have been allocated from the page arena. A table is made when a kernel
// stack first lies in the table's range. A table is never freed; later stacks in its range reuse
// the table. Any context.
uint64_t kernel_table_bytes();
// The kernel's root page table.
PhysAddr kernel_root_table();
