// The file alloc of #debug.
#pragma once

#include <string_view>

#include "lib/result.h"

class Text;

// `text`: commands, one a line. EINVAL, with nothing done, if one of them makes no sense; ENOMEM,
// ENOSPC, EBUSY, EINTR, with what came before it done. May sleep.
Result<void> debug_alloc_write(std::string_view text);
// A line for each name: how many of its objects are held.
void debug_alloc_print(Text& text);
void debug_alloc_init();
