// kmemtop on a terminal.
#pragma once

#include "arguments.h"

// Until q, a signal or the last refresh. std::runtime_error if there is no terminal, or no counts
// at all. What goes wrong later stands in the message line until the next key.
void run_screen(const Arguments& arguments);
