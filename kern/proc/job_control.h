// Sessions and their terminals: ownership of a terminal, access to it from the background, and the
// signals that it sends (POSIX chapter 11.1).
//
// A session's leader gets a terminal for the session by opening the terminal without O_NOCTTY, or
// by a request. This works if the session has no terminal yet, no other session has the terminal,
// and the leader owns the terminal or is root. The session loses the terminal when the leader ends
// or gives up the terminal, or when the terminal hangs up.
//
// While a session has a terminal, only processes of the session choose the foreground group. These
// processes, root and the terminal's owner set the terminal's modes; others cannot.
//
// The leader has a plain pointer to the terminal, without a reference. job_forget() clears this
// pointer before the terminal is freed. process_lock guards the pointer and all other state of job
// control.
#pragma once

#include "core/ref.h"
#include "proc/process.h"

// The process group in the foreground of a terminal.
struct ForegroundJob {
  ProcessId leader;    // leader of the session with the terminal; PID 0 if there is none
  uint32_t group = 0;  // ID of a group of this leader's session
  Credentials who;     // credentials of the process that chose the group
};

// A terminal that a session can have.
class SessionTerminal : public RefCounted<SessionTerminal> {
 public:
  static constexpr RefKind kRefKind = RefKind::kPty;
  static void destroy(SessionTerminal* terminal) { terminal->end(); }

  // (major << 8) | minor, as in a process's `stat`.
  virtual uint32_t number() const = 0;
  // The user who may take the terminal for a session. Root may, too. Any context.
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
// job_set_foreground first check whether the process is in the background of the terminal's
// session. If it is, its group gets SIGTTIN or SIGTTOU, which stops the group, and the function
// returns EINTR. The system call is then repeated when the process continues.
//
// Two exceptions: If the group is orphaned, nobody would continue the process, so the group gets no
// signal and the function returns EIO. If the process blocks or ignores the signal, job_check_read
// returns EIO, and the other functions permit the operation.

// Checks that the process may read. EIO if another session has the terminal.
Result<void> job_check_read(const SessionTerminal& terminal);
// Checks that the process may write. Called only if the terminal's modes restrict writing to the
// foreground (TOSTOP). A process of another session may write.
Result<void> job_check_write(const SessionTerminal& terminal);
// Checks that the process may set the modes. EPERM if the terminal is not the process's terminal,
// and the process is neither root nor the terminal's owner.
Result<void> job_check_modes(const SessionTerminal& terminal);
// Puts `group` in the foreground. ENOTTY if `terminal` is not the process's terminal; EPERM if the
// group is in another session.
Result<void> job_set_foreground(SessionTerminal& terminal, uint32_t group);
// Gives the terminal to the process's session. EPERM if the process is no session leader, if the
// session has another terminal, or if the process is neither root nor the terminal's owner. EPERM
// also if another session has the terminal; only root can steal it, with Steal::kYes.
enum class Steal : bool { kNo, kYes };
Result<void> job_acquire(SessionTerminal& terminal, Steal steal);
// Gives up the terminal. If the process is its session's leader, the whole session loses the
// terminal; otherwise only the process loses it. ENOTTY.
Result<void> job_leave(SessionTerminal& terminal);
// job_foreground() returns the group in the foreground of the process's terminal, job_session()
// that terminal's session. ENOTTY if `terminal` is not the process's terminal.
Result<uint32_t> job_foreground(const SessionTerminal& terminal);
Result<uint32_t> job_session(const SessionTerminal& terminal);
// Returns the process's terminal; an empty reference if the process has none.
Ref<SessionTerminal> job_terminal();

// Returns the foreground group of the session that has the terminal; 0 if no session has it.
uint32_t job_any_foreground(const SessionTerminal& terminal);
// Sends a signal typed at the terminal to the foreground group, with the rights of the process that
// put the group in the foreground. Any context.
void job_signal(const ForegroundJob& job, int signal);
// Called when the terminal's size has changed: sends SIGWINCH to the foreground group.
void job_resized(const SessionTerminal& terminal);
// Called when the terminal hangs up. The session loses the terminal; the session's leader and the
// foreground group get SIGHUP and SIGCONT.
void job_hang_up(SessionTerminal& terminal);
// Called when the terminal is about to be freed: the session loses the terminal, without signals.
void job_forget(SessionTerminal& terminal);
