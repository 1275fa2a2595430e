// What an address is, what points to it, and why it is alive: the answer of #mem/whatis. The theory
// is in src/reach/whatis.cc; docs/debugging.md explains it for users.
#pragma once

#include <cstdint>
#include <string_view>

#include "lib/result.h"

class WhatisAnswer;
// Of any number. Stops all CPUs while it looks. By one at a time, the next waits. ENOMEM with the
// error string set. May sleep; interrupts on, no spinlock held.
Result<WhatisAnswer*> whatis_answer_make(uint64_t address);
std::string_view whatis_answer_text(const WhatisAnswer* answer);
void whatis_answer_free(WhatisAnswer* answer);
