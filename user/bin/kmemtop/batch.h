// kmemtop without a terminal.
#pragma once

#include "arguments.h"

// Prints a table for each refresh to standard output, until a signal or the last one.
// std::runtime_error if there are no counts at first, or the output cannot be written. A later
// refresh that fails gets a line on standard error instead of a table.
void run_batch(const Arguments& arguments);
