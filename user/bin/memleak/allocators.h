// The functions of a program that allocate and free its memory.
//
// All allocations of this system's programs go through newlib's _malloc_r, _calloc_r, _realloc_r
// and _memalign_r, and back through _free_r: malloc and the like, operator new and the library
// itself (getline, fopen, strdup, printf) call these. So these are probed. A function that only
// calls one of them is not: that would double the price of every call. If a program has its own
// malloc or operator new, these are probed too; calls within them are part of them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "symbols/program_symbols.h"

struct AllocatorProbes {
  std::vector<std::string> commands;  // of a session (docs/probes.md)
  bool allocates = false, frees = false;
};

// Of the program in the file `path`. With a prefix: only malloc and the like with that prefix.
// std::runtime_error if their returns are not known.
AllocatorProbes allocator_probes(const std::string& path, const Program& program,
                                 std::string_view prefix);

// Is a function, by its linker's name, part of an allocator? Then its caller has allocated.
bool is_allocator(std::string_view function, std::string_view prefix);
