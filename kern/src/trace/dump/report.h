// Reports to the log. What is reported, and when: report.cc.
#pragma once

// Reports go to `sink`, line by line, instead of the log, and none is left out for having come too
// soon; nullptr: to the log again. For tests.
void trace_report_to(void (*sink)(const char* text));
