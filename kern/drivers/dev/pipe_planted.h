// Planted bugs (core/planted.h): leaks in pipes. If the leak test compares only the stacks of five
// traced runs, it misses these leaks; its other checks must find them.
#pragma once

#ifdef CONFIG_PLANTED_BUGS
// Called when a pipe without a name has ended. Contains these bugs:
// - `five_stacks` loses an object in each call, through five callers in turn;
// - `one_in_two`, `one_in_four` and `one_in_ten` lose an object in every second, fourth or tenth
//   call;
// - `reallocation` has one table, which each call enlarges, from 2 KiB up to 256 KiB.
// May sleep.
void planted_pipe_ended();
// Called for each write to a pipe. Contains the bug `batch`: each write uses up one entry for ever.
// Entries are allocated 256 at a time, so one write in 256 allocates. May sleep.
void planted_pipe_written();
#else
inline void planted_pipe_ended() {}
inline void planted_pipe_written() {}
#endif
