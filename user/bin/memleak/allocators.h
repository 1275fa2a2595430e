// The functions of a program that allocate and free its memory.
//
// All allocations of this system's programs go through newlib's _malloc_r, _calloc_r, _realloc_r
// and _memalign_r, and all frees go through _free_r. The public functions (malloc and the like),
// operator new, and the library itself (getline, fopen, strdup, printf) call these five functions.
// So these five are probed. A function that only calls one of them is not probed, because a second
// probe would double the cost of every call. If a program has its own malloc or operator new, this
// function is probed, too. Allocations within a call of a probed function are not recorded
// separately.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "symbols/program_symbols.h"

struct AllocatorProbes {
  std::vector<std::string> commands;  // commands for a session (docs/probes.md)
  bool allocates = false, frees = false;
};

// Gets the probes for the program in the file `path`. If `prefix` is not empty, gets only the
// probes for PREFIXmalloc, PREFIXfree and the like. Throws std::runtime_error if the code does not
// show where one of these functions returns.
AllocatorProbes allocator_probes(const std::string& path, const Program& program,
                                 std::string_view prefix);

// True if the function with this linker name is part of an allocator. Reports attribute an
// allocation to the caller of such a function.
bool is_allocator(std::string_view function, std::string_view prefix);
