// What the files of #probe say, as text.
#pragma once

#include "device.h"
#include "src/trace/probe_session.h"

// The functions that can be probed.
void probe_print_functions(Text& text);
// What a session has counted. ENOMEM.
Result<void> probe_print_counts(ProbeSession& session, Text& text);
