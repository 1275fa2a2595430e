// Job control, for a terminal: whose it is, and what the processes get that are not in its
// foreground (POSIX chapter 11.1).
//
// A terminal belongs to a session as long as the session's leader lives. A session gets it when its
// leader, who must be root, puts a group in the foreground of a terminal that is nobody's. From
// then on only that session's processes choose the foreground, and only they and root set its
// modes.
#pragma once

#include "proc/process.h"

// The process group in the foreground of a terminal.
struct ForegroundJob {
  ProcessId leader;    // of the session that has the terminal; the PID is 0 if none has had it
  uint32_t group = 0;  // of that session
  Credentials who;     // that put it there
};

// All but the last are about the current process. Those in the background of the terminal's session
// get SIGTTIN or SIGTTOU, with their group, and EINTR, so that the call is made again when they go
// on; EIO if nobody would make them go on (an orphaned group), or they read and SIGTTIN does not
// stop them.

// May read: EIO in another session.
Result<void> job_check_read(const ForegroundJob& now);
// May set the modes: EPERM in another session.
Result<void> job_check_modes(const ForegroundJob& now);
// What the terminal's foreground is when `group` is put there. ENOTTY if the terminal is another
// session's, or cannot become this one's; EPERM if the group is not this session's.
Result<ForegroundJob> job_to_foreground(const ForegroundJob& now, uint32_t group);
// A signal that was typed, with the rights of who put the group in the foreground. Any context.
void job_signal(const ForegroundJob& now, int signal);
