// Messages of the kernel about the programs of users.
//
// A program can make the kernel print a line each time that it dies, and on a serial port a line
// takes milliseconds with interrupts off. So the programs of all users but root together have
// kLogAtOnce lines, and get kLogEachSecond back each second. A line then says how many are missing.
#pragma once

struct Process;

inline constexpr unsigned kLogAtOnce = 100, kLogEachSecond = 10;

// True if the kernel may print a line about the process. The caller may hold process_lock.
bool user_log_permits(const Process& process);
