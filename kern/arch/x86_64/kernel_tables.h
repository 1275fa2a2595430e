// Page tables of the kernel's virtual range.
#pragma once

#include <cstdint>

#include "lib/units.h"

// Bytes of page tables that have been allocated from the page arena. A table is made when a stack
// first lies in its range. It is never freed; later stacks in the range reuse it. Any context.
uint64_t kernel_table_bytes();
// The kernel's root page table.
PhysAddr kernel_root_table();
