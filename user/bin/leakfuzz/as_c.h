// Translates programs of the fuzzer (program.h) to one C program, which reproduces a finding
// without the fuzzer.
#pragma once

#include <vector>

#include "program.h"

// Prints the C program to standard output. make_pools() must have been called.
void print_as_c(const std::vector<Program>& programs);
