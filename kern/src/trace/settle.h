#pragma once

#include "lib/result.h"

// Runs the functions registered by trace_register_settle, and waits until no live count changes.
// ETIMEDOUT. May sleep.
Result<void> trace_settle();
