// Orders to the kernel's tracer: #mem/kmemtrace (docs/tracer.md).
#pragma once

#include <string>
#include <string_view>

// "#mem/kmemtrace/NAME".
std::string trace_file(std::string_view name);

// Starts, stops or ends the trace of a source, by what its trace is now ("off", "running",
// "stopped"). An empty string if that went well, or what is wrong, in a line.
std::string toggle_trace(const std::string& name, std::string_view state);
std::string end_trace(const std::string& name, std::string_view state);

// An empty string, or why this user can have no traces.
std::string why_no_traces();
