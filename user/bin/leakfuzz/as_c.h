// Programs as one in C, for who wants to look at what was found without the fuzzer.
#pragma once

#include <vector>

#include "program.h"

// To standard output. make_pools has been called.
void print_as_c(const std::vector<Program>& programs);
