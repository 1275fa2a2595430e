// What the files of #probe say, as text.
#pragma once

#include "device.h"
#include "src/trace/probe_session.h"

// The functions that can be probed.
void probe_print_functions(Text& text);
// What a session has counted. ENOMEM.
Result<void> probe_print_counts(ProbeSession& session, Text& text);
// An event, as a line; fits in kProbeEventLine bytes. The length.
inline constexpr size_t kProbeEventLine = 512;
size_t probe_format_event(char* line, const ProbeEvent& event);
