// kmemtop without a terminal.
#pragma once

#include "arguments.h"

// Prints a table for each refresh to standard output, until a signal comes or the last refresh is
// done. Throws std::runtime_error if #mem/kmemstat cannot be read at the start, or if the output
// cannot be written. If a later refresh fails, prints a line to standard error instead of a table.
void run_batch(const Arguments& arguments);
