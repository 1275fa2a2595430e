// Commands to the kernel's tracer: #mem/kmemtrace (docs/tracer.md).
#pragma once

#include <string>
#include <string_view>

// "#mem/kmemtrace/NAME".
std::string trace_file(std::string_view name);

// toggle_trace() stops the trace of a source if `state` is "running", and starts it otherwise.
// end_trace() stops the trace and frees its records. If `state` is "off" or "never", end_trace()
// does nothing. Both functions return an empty string after success, otherwise an error in one
// line.
std::string toggle_trace(const std::string& name, std::string_view state);
std::string end_trace(const std::string& name, std::string_view state);

// Returns an empty string, or the reason why this user cannot start or read traces.
std::string why_no_traces();
