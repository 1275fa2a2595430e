// The answer of #mem/whatis: a description of an address, the pointers to it, and why it is alive.
// The theory is in src/reach/whatis.cc; docs/debugging.md explains it for users.
#pragma once

#include <cstdint>
#include <string_view>

#include "lib/result.h"

class WhatisAnswer;
// The answer for any number. Stops all CPUs while it searches. One caller at a time; others wait.
// ENOMEM with the error string set. May sleep; interrupts on, no spinlock held.
Result<WhatisAnswer*> whatis_answer_make(uint64_t address);
std::string_view whatis_answer_text(const WhatisAnswer* answer);
void whatis_answer_free(WhatisAnswer* answer);
