// kmemtop on a terminal.
#pragma once

#include "arguments.h"

// Until q, a signal or the last refresh. std::runtime_error if there is no terminal, or no counts
// at all. The message line shows later errors until the next key.
void run_screen(const Arguments& arguments);
