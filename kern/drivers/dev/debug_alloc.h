// The file alloc of #debug.
#pragma once

#include <string_view>

#include "lib/result.h"

class Text;

// Executes commands, one a line. EINVAL for a malformed line, before anything is done; ENOMEM,
// ENOSPC, EBUSY, EINTR, with earlier lines done. May sleep.
Result<void> debug_alloc_write(std::string_view text);
// Prints a line for each name: the number of objects held.
void debug_alloc_print(Text& text);
void debug_alloc_init();
