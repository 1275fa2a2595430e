// The texts of the files of #mem that everyone may read: memory use, without kernel addresses. May
// sleep.
#pragma once

#include "ns/device.h"

// Arenas as a tree, caches under the arena that their slabs come from.
void mem_print_kmemstat(Text& text);
// A line for each cache: slabs, magazines, depot, hash, checking.
void mem_print_slab_stats(Text& text);
// For each arena its counts, and its free segments by size.
void mem_print_arena_stats(Text& text);
void mem_print_free(Text& text);
