// Leaks planted in pipes that the stacks of a few runs do not show (core/planted.h).
#pragma once

#ifdef CONFIG_PLANTED_BUGS
// A pipe has ended. The bugs five_stacks: loses an object each time, from one function that is
// called by another of five functions each time; one_in_two, one_in_four, one_in_ten: loses one
// every second, fourth or tenth time; reallocation: the single table grows from 2 KiB to 32 KiB.
// May sleep.
void planted_pipe_ended();
// Something is being written to a pipe. The bug batch: each write takes an entry that is never
// returned, and entries are allocated 256 at a time. May sleep.
void planted_pipe_written();
#else
inline void planted_pipe_ended() {}
inline void planted_pipe_written() {}
#endif
