// Planted bugs (core/planted.h): leaks in pipes that the leak test does not find by the stacks of
// five traced runs.
#pragma once

#ifdef CONFIG_PLANTED_BUGS
// Called when a pipe has ended. Has these bugs: five_stacks loses an object in each call, through
// five callers in turn. one_in_two, one_in_four and one_in_ten lose an object in every second,
// fourth or tenth call. reallocation has one table, which grows with each call, from 2 KiB to 32
// KiB. May sleep.
void planted_pipe_ended();
// Called for each write to a pipe. Has the bug batch: each write takes an entry that is never
// returned; entries are allocated 256 at a time. May sleep.
void planted_pipe_written();
#else
inline void planted_pipe_ended() {}
inline void planted_pipe_written() {}
#endif
