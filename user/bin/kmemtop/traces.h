// Commands to the kernel's tracer: #mem/kmemtrace (docs/tracer.md).
#pragma once

#include <string>
#include <string_view>

// "#mem/kmemtrace/NAME".
std::string trace_file(std::string_view name);

// Starts, stops or resets the trace of a source, depending on its state ("off", "running",
// "stopped"). Returns an empty string, or the error in a line.
std::string toggle_trace(const std::string& name, std::string_view state);
std::string end_trace(const std::string& name, std::string_view state);

// An empty string, or the reason why this user can have no traces.
std::string why_no_traces();
