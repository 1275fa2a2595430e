// Reports to the log (report.cc).
#pragma once

// Sends reports to `sink`, line by line, instead of the log, and skips none for coming too soon;
// nullptr: to the log again. For tests.
void trace_report_to(void (*sink)(const char* text));
