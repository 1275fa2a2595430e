// Reports to the log (report.cc).
#pragma once

// Sends reports to `sink`, line by line. If `sink` is nullptr, sends them to the log, as at boot.
// Also allows the next out-of-memory report at once, even if the last one was made shortly before.
// For tests.
void trace_report_to(void (*sink)(const char* text));
