// Machine checks: errors that the hardware detects (Intel SDM volume 3, chapter 16; AMD APM volume
// 2, chapter 9).
#pragma once

// Enables machine checks and all their banks on this CPU, and forgets old errors. A CPU on which
// they are not enabled shuts down at a machine check instead of calling its handler.
void machine_check_setup_cpu();
// Prints the errors that this CPU has recorded. For the handler of a machine check.
void machine_check_print();
