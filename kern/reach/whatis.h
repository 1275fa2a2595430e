// The answer of #mem/whatis describes an address. If the address lies in an object, the answer also
// lists the words that point to the object, and shows a path by which the object can be reached.
// The theory is in reach/whatis.cc; docs/debugging.md explains the answer for users.
#pragma once

#include <cstdint>
#include <string_view>

#include "lib/result.h"

class WhatisAnswer;
// Makes the answer for `address`, which may be any number. Stops all CPUs during the search. Only
// one call searches at a time; other callers wait. ENOMEM with the error string set. May sleep;
// interrupts on, no spinlock held.
Result<WhatisAnswer*> whatis_answer_make(uint64_t address);
std::string_view whatis_answer_text(const WhatisAnswer* answer);
void whatis_answer_free(WhatisAnswer* answer);
