// The texts of the files of #mem that everyone may read: memory use, without kernel addresses. May
// sleep.
#pragma once

#include "ns/device.h"

// Prints the arenas as a tree, and each cache under the arena that its slabs come from.
void mem_print_kmemstat(Text& text);
// Prints a line for each cache: slabs, magazines, depot, hash, checking.
void mem_print_slab_stats(Text& text);
// Prints the counts of each arena, and its free segments by size.
void mem_print_arena_stats(Text& text);
void mem_print_free(Text& text);
