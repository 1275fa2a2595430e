// The tracer's interface for the rest of the kernel. The theory is in src/trace/trace.cc; docs/tracer.md explains it for users.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "lib/ref.h"
#include "lib/result.h"
#include "slab.h"

// Once, after memory and CPUs are there: the trace arena with its limit, stack table, contexts, control lock.
void trace_init();

// --- Contexts. A 32-bit id that says who allocated; 0 is "not recorded".

enum class ContextKind : uint8_t { kKernelTask, kProcess, kInterrupt };
// An id for a kernel task (pid 0) or a process, deduplicated; 0 at the limit (counted in contexts_lost). May be called with interrupts off.
uint32_t trace_context_make(ContextKind kind, uint32_t pid, std::string_view name);

// What the tracer asks of the scheduler: "in what context am I?" The function is called with interrupts off, in any context.
using ContextProvider = uint32_t (*)();
void trace_register_context_provider(ContextProvider provider);

// --- Control: each may sleep, with interrupts on and no spinlock held. On failure nothing has changed and the error string is set.

// Several commands, one a line: start [depth=N], stop, reset, mark. All lines are parsed before the first is done. EINVAL, EPERM, ENOSPC, EBUSY, ENOMEM.
Result<void> trace_command(kmem_cache* cache, std::string_view text);
// The same for all caches that can be traced, and `settle`: reaps, drains deferred work and waits until caches are quiet (ETIMEDOUT).
Result<void> trace_command_all(std::string_view text);
// Registered by higher layers: work that `settle` has done first (drain dead tasks, deferred frees). May sleep.
void trace_register_settle(void (*drain)());

// --- Dumps.

// A consistent copy of a cache's trace, formatted while it is read.
class TraceDump;
// Text of the dump from `offset` on, as for a file; 0 at its end. Reads must go forward (offset 0 begins again). ENOMEM.
Result<TraceDump*> trace_dump_open(kmem_cache* cache);
Result<size_t> trace_dump_read(TraceDump* dump, char* buffer, size_t size, uint64_t offset);
void trace_dump_close(TraceDump* dump);
// One line for each traced cache: state and counters, as text.
Result<size_t> trace_status(char* buffer, size_t size);
