// Sessions and their terminals: ownership of a terminal, access to it from the background, and the
// signals that it sends (POSIX chapter 11.1).
//
// A session without a terminal gets a free one when its leader opens it without O_NOCTTY or
// requests it; the leader must own the terminal or be root. The session loses the terminal when the
// leader ends or gives it up, and when the terminal hangs up. While a session has a terminal, only
// the session's processes choose the foreground; and only these processes, root and the terminal's
// owner set the terminal's modes.
//
// The leader has a pointer to the terminal, which is not a reference: the end of the terminal
// clears it. process_lock guards this pointer and all other state of job control.
#pragma once

#include "core/ref.h"
#include "proc/process.h"

// The process group in the foreground of a terminal.
struct ForegroundJob {
  ProcessId leader;    // leader of the session with the terminal; PID 0 if there is none
  uint32_t group = 0;  // a group of that session
  Credentials who;     // credentials of the process that chose the group
};

// A terminal that a session can have.
class SessionTerminal : public RefCounted<SessionTerminal> {
 public:
  static constexpr RefKind kRefKind = RefKind::kPty;
  static void destroy(SessionTerminal* terminal) { terminal->end(); }

  // (major << 8) | minor, as in a process's `stat`.
  virtual uint32_t number() const = 0;
  // The user who, like root, may take the terminal. Any context.
  virtual uint32_t owner() const = 0;
  // Opens the terminal again, for /dev/tty. EIO, ENOMEM. May sleep.
  virtual Result<Ref<Chan>> open(uint32_t flags) = 0;
  // Disconnects the open files from the terminal.
  virtual void hang_up() = 0;

  ForegroundJob job;  // guarded by process_lock

 protected:
  constexpr SessionTerminal() = default;
  ~SessionTerminal() = default;

 private:
  virtual void end() = 0;  // the last reference is gone
};

// The functions up to job_terminal concern the current process. The job_check_ functions and
// job_set_foreground stop a process in the background of the terminal's session: its group gets
// SIGTTIN or SIGTTOU, and the call returns EINTR, so that the call is repeated when the process
// continues. The call returns EIO instead if nobody would continue the process (an orphaned group).
// If the process blocks or ignores the signal, job_check_read returns EIO, and the other functions
// permit the operation.

// Checks that the process may read: EIO in another session.
Result<void> job_check_read(const SessionTerminal& terminal);
// Checks that the process may write if the terminal's modes restrict writing to the foreground
// (TOSTOP).
Result<void> job_check_write(const SessionTerminal& terminal);
// Checks that the process may set the modes. EPERM in another session, except for root and the
// terminal's owner.
Result<void> job_check_modes(const SessionTerminal& terminal);
// Puts `group` in the foreground. ENOTTY if `terminal` is not the process's terminal; EPERM if the
// group is in another session.
Result<void> job_set_foreground(SessionTerminal& terminal, uint32_t group);
// Gives the terminal to the process's session. EPERM if the process is no session leader, has
// another terminal, or may not take this one; also if another session has the terminal, unless root
// steals it.
enum class Steal : bool { kNo, kYes };
Result<void> job_acquire(SessionTerminal& terminal, Steal steal);
// Gives up the terminal: a session's leader for the whole session, another process only for itself.
// ENOTTY.
Result<void> job_leave(SessionTerminal& terminal);
// The group in the foreground of the process's terminal, and that terminal's session. ENOTTY.
Result<uint32_t> job_foreground(const SessionTerminal& terminal);
Result<uint32_t> job_session(const SessionTerminal& terminal);
// The process's terminal; nothing if it has none.
Ref<SessionTerminal> job_terminal();

// The foreground group of the session that has the terminal; 0 if no session has it.
uint32_t job_any_foreground(const SessionTerminal& terminal);
// Sends a signal typed at the terminal, with the rights of the process that put the group in the
// foreground. Any context.
void job_signal(const ForegroundJob& job, int signal);
// The terminal's size has changed: sends SIGWINCH.
void job_resized(const SessionTerminal& terminal);
// The terminal is gone: takes it from its session, and sends SIGHUP and SIGCONT to the leader and
// the foreground.
void job_hang_up(SessionTerminal& terminal);
// The terminal's memory is about to be freed.
void job_forget(SessionTerminal& terminal);
