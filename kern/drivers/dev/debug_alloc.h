// The file alloc of #debug.
#pragma once

#include <string_view>

#include "lib/result.h"

class Text;

// Executes commands, one per line. If a line is malformed (EINVAL), no line is executed. If a
// command fails (EINVAL, ENOMEM, ENOSPC, EBUSY, EINTR), the lines before this command have been
// executed. May sleep.
Result<void> debug_alloc_write(std::string_view text);
// Prints a line for each name that has held objects: the name and the number of these objects.
void debug_alloc_print(Text& text);
void debug_alloc_init();
