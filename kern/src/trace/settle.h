#pragma once

#include "lib/result.h"

// Runs what trace_register_settle was given, and waits until no live count changes. ETIMEDOUT. May
// sleep.
Result<void> trace_settle();
