#pragma once

#include "lib/result.h"

// Runs the functions registered with trace_register_settle(). Then waits until the live counts of
// all trace sources (caches, arenas and classes of references) stay unchanged for a few ticks.
// ETIMEDOUT after five seconds. May sleep.
Result<void> trace_settle();
