// Descriptions of addresses, as text.
#pragma once

#include <cstdint>

#include "reach/writer_impl.h"
#include "trace/trace.h"

namespace reach {

// All CPUs are stopped during each of these functions.

// Writes "ADDRESS is …" and further lines with all that is known of `address`. `address` may be any
// number. The time is proportional to the number of caches, arenas, boundary tags and tasks, and to
// the number of slabs of a single cache.
void describe(Writer& to, uint64_t address);
// Writes where a root word lies: "VARIABLE+0x8", or on which stack.
void describe_root(Writer& to, uint64_t address);
// Writes the task that allocated an object of `source`, and the stack of the allocation, if a trace
// has a record of the object (origin.cc).
void describe_origin(Writer& to, TraceSource source, uint64_t object);
// Writes one line of a stack trace: the return address and its function.
void describe_frame(Writer& to, uint64_t return_address);

}  // namespace reach
