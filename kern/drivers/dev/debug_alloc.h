// The file alloc of #debug.
#pragma once

#include <string_view>

#include "lib/result.h"

class Text;

// Executes commands, one a line. EINVAL if a line is malformed: no line is executed. ENOMEM,
// ENOSPC, EBUSY, EINTR: the lines before the failing one have been executed. May sleep.
Result<void> debug_alloc_write(std::string_view text);
// Prints a line for each name: the name, and the number of objects that `leak` holds.
void debug_alloc_print(Text& text);
void debug_alloc_init();
