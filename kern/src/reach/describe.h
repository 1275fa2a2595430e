// What lies at an address, in words.
#pragma once

#include <cstdint>

#include "reach/writer.h"
#include "trace/trace.h"

namespace reach {

// "ADDRESS is …" and lines that say what else is known: for any number. All CPUs are stopped. Time
// in proportion to caches, arenas with their boundary tags, tasks, and the slabs of one cache.
void describe(Writer& to, uint64_t address);
// Where a word lies that is a root: "VARIABLE+0x8", or on which stack. The same context.
void describe_root(Writer& to, uint64_t address);
// The line that says who allocated an object of `source`, and the stack: if that is traced
// (origin.cc). The same context.
void describe_origin(Writer& to, TraceSource source, uint64_t object);
// A line of a stack: the address and its function.
void describe_frame(Writer& to, uint64_t return_address);

}  // namespace reach
