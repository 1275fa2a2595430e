// Leaks that the stacks of a few runs do not show, planted in pipes (core/planted.h).
#pragma once

#ifdef CONFIG_PLANTED_BUGS
// A pipe has ended. The bugs five_stacks: something is lost each time, by one function that another
// of five calls; one_in_two, one_in_four, one_in_ten: every second, fourth or tenth time;
// reallocation: a table, of which there is one, grows from 2 KiB to 32 KiB. May sleep.
void planted_pipe_ended();
// Something is being written to a pipe. The bug batch: it takes a place that never comes back, and
// places are allocated 256 at a time. May sleep.
void planted_pipe_written();
#else
inline void planted_pipe_ended() {}
inline void planted_pipe_written() {}
#endif
