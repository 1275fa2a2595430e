// Descriptions of addresses, as text.
#pragma once

#include <cstdint>

#include "reach/writer.h"
#include "trace/trace.h"

namespace reach {

// Writes "ADDRESS is …" and lines with everything else that is known. Takes any number. All CPUs
// are
// stopped. Time in proportion to caches, arenas with their boundary tags, tasks, and the slabs of
// one cache.
void describe(Writer& to, uint64_t address);
// Says where a root word lies: "VARIABLE+0x8", or on which stack. Same context.
void describe_root(Writer& to, uint64_t address);
// Writes who allocated an object of `source`, and the stack, if a trace knows it (origin.cc). Same
// context.
void describe_origin(Writer& to, TraceSource source, uint64_t object);
// Writes a line of a stack: the address and its function.
void describe_frame(Writer& to, uint64_t return_address);

}  // namespace reach
