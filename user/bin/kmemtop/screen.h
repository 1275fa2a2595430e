// kmemtop on a terminal.
#pragma once

#include "arguments.h"

// Runs until the key q, a signal or the last refresh. Throws std::runtime_error if there is no
// terminal, or if #mem/kmemstat cannot be read at the start. The message line shows later errors
// until the next key.
void run_screen(const Arguments& arguments);
