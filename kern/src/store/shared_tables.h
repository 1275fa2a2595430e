// The tables that all traces and sessions of probes share: stacks and contexts, each kept once.
//
// What holds a number of a stack or a context is a user of the tables: a trace table, an open dump,
// a session. As long as there is one, numbers keep their meaning, the pool of trace memory is filled,
// and there is a reserve for dumps; without any, all memory is given back.
#pragma once

#include "lib/result.h"
#include "store/context_table.h"
#include "store/stack_table.h"

extern StackTable trace_stacks;
extern ContextTable trace_contexts;

// The first makes the tables ready, the last empties them. ENOMEM. May sleep; with no sleeping lock
// of a rank below kTraceStore held.
Result<void> trace_users_add();
void trace_users_drop();
