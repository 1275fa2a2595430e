// Page tables of the kernel's virtual range.
#pragma once

#include <cstdint>

#include "lib/units.h"

// Bytes of those made since the page arena has been in use. They are made as stacks come to lie
// where none has been, and never given back; the next stacks there use them again. Any context.
uint64_t kernel_table_bytes();
// The page that the kernel's own tables begin with.
PhysAddr kernel_root_table();
