// Which functions of a program allocate and free its memory.
//
// All that programs of this system allocate passes through newlib's _malloc_r, _calloc_r,
// _realloc_r and _memalign_r, and comes back through _free_r: malloc and its like, operator new and
// the library itself (getline, fopen, strdup, printf) call these. So they are what is probed, and a
// function that does nothing but call one of them is not: that would double the price of every
// call. A program that brings a malloc or an operator new of its own has these probed too, and what
// a session sees called from within them is part of them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "symbols/program_symbols.h"

struct AllocatorProbes {
  std::vector<std::string> commands;  // of a session (docs/probes.md)
  bool allocates = false, frees = false;
};

// Of the program in the file `path`. With a prefix: of malloc and its like, those whose names it
// makes, and nothing else. std::runtime_error if it is not known where they return.
AllocatorProbes allocator_probes(const std::string& path, const Program& program,
                                 std::string_view prefix);

// Whether a function, by its linker's name, is part of an allocator, so that who calls it has
// allocated.
bool is_allocator(std::string_view function, std::string_view prefix);
