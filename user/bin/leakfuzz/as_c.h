// Prints programs as one C program, to reproduce a finding without the fuzzer.
#pragma once

#include <vector>

#include "program.h"

// Prints to standard output. make_pools() must have been called.
void print_as_c(const std::vector<Program>& programs);
