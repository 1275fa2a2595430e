// What the control of traces asks of the hooks (hooks.cc) besides what slab.c and arena.cc call.
#pragma once

#include "trace/control.h"

// Before the first sampled trace of all is started.
void trace_seed_samplers() REQUIRES(trace_control);
