// Reports to the log (report.cc).
#pragma once

// Sends reports to `sink`, line by line, instead of the log; with nullptr, to the log again. The
// next out-of-memory report is made even if it comes soon after another one. For tests.
void trace_report_to(void (*sink)(const char* text));
