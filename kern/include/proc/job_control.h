// Sessions and their terminals: ownership of a terminal, and signals to processes that are not in
// its foreground (POSIX chapter 11.1).
//
// A session without a terminal gets a free one when its leader opens it without O_NOCTTY or
// requests it; the leader must own the terminal or be root. The session loses the terminal when the
// leader ends or gives it up, and when the terminal hangs up. Meanwhile only the session's
// processes choose the foreground, and only they, root and the terminal's owner set its modes.
//
// The leader has a pointer to the terminal, which is not a reference: the end of the terminal
// clears it. All of this is under process_lock.
#pragma once

#include "core/ref.h"
#include "proc/process.h"

// The process group in the foreground of a terminal.
struct ForegroundJob {
  ProcessId leader;    // of the session that has the terminal; the PID is 0 if none has it
  uint32_t group = 0;  // of that session
  Credentials who;     // of the process that put it there
};

// A terminal that a session can have.
class SessionTerminal : public RefCounted<SessionTerminal> {
 public:
  static constexpr RefKind kRefKind = RefKind::kPty;
  static void destroy(SessionTerminal* terminal) { terminal->end(); }

  // (major << 8) | minor, as in a process's `stat`.
  virtual uint32_t number() const = 0;
  // The user who may take it, besides root. Any context.
  virtual uint32_t owner() const = 0;
  // Opens the terminal once more, for /dev/tty. EIO, ENOMEM. May sleep.
  virtual Result<Ref<Chan>> open(uint32_t flags) = 0;
  // Disconnects the open files from the terminal.
  virtual void hang_up() = 0;

  ForegroundJob job;  // under process_lock

 protected:
  constexpr SessionTerminal() = default;
  ~SessionTerminal() = default;

 private:
  virtual void end() = 0;  // the last reference is gone
};

// The functions up to job_terminal concern the current process. In the background of the terminal's
// session, its group gets SIGTTIN or SIGTTOU, and the call returns EINTR, so that it is repeated
// when the process continues. EIO instead if nobody would continue the process (an orphaned group),
// or if it reads and SIGTTIN does not stop it.

// Checks that the process may read: EIO in another session.
Result<void> job_check_read(const SessionTerminal& terminal);
// Checks that the process may write if the modes restrict that to the foreground (TOSTOP).
Result<void> job_check_write(const SessionTerminal& terminal);
// Checks that the process may set the modes: EPERM in another session.
Result<void> job_check_modes(const SessionTerminal& terminal);
// Puts `group` in the foreground. ENOTTY if it is not the process's terminal; EPERM if the group is
// in another session.
Result<void> job_set_foreground(SessionTerminal& terminal, uint32_t group);
// Gives the terminal to the process's session. EPERM if the process is no leader, has another
// terminal, or may not have this one; also if another session has it, unless root steals it.
enum class Steal : bool { kNo, kYes };
Result<void> job_acquire(SessionTerminal& terminal, Steal steal);
// Gives up the terminal: the leader for the session, another process for itself. ENOTTY.
Result<void> job_leave(SessionTerminal& terminal);
// The group in the foreground of the process's terminal, and that terminal's session. ENOTTY.
Result<uint32_t> job_foreground(const SessionTerminal& terminal);
Result<uint32_t> job_session(const SessionTerminal& terminal);
// The process's terminal; nothing if it has none.
Ref<SessionTerminal> job_terminal();

// The foreground group of the session that has the terminal; 0 if none has it.
uint32_t job_any_foreground(const SessionTerminal& terminal);
// Sends a signal typed at the terminal, with the rights of the process that put the group in the
// foreground. Any context.
void job_signal(const ForegroundJob& job, int signal);
// The terminal's size has changed: sends SIGWINCH.
void job_resized(const SessionTerminal& terminal);
// The terminal is gone: sends SIGHUP to the session's leader and the foreground.
void job_hang_up(SessionTerminal& terminal);
// The terminal's memory is about to be freed.
void job_forget(SessionTerminal& terminal);
