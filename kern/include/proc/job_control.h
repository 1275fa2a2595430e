// Sessions and their terminals: whose a terminal is, and what the processes get that are not in its
// foreground (POSIX chapter 11.1).
//
// A session gets a terminal when its leader, who has none, opens one that is nobody's without
// O_NOCTTY or asks for it; the terminal must be root's to take, or the leader's own. It loses it
// when the leader ends or gives it up, and when the terminal hangs up. Meanwhile only the session's
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
  Credentials who;     // that put it there
};

// What a session may have as its terminal.
class SessionTerminal : public RefCounted<SessionTerminal> {
 public:
  static constexpr RefKind kRefKind = RefKind::kPty;
  static void destroy(SessionTerminal* terminal) { terminal->end(); }

  // As a process's `stat` has it: (major << 8) | minor.
  virtual uint32_t number() const = 0;
  // Who may take it besides root. Any context.
  virtual uint32_t owner() const = 0;
  // Another open file of it, as /dev/tty is. EIO, ENOMEM. May sleep.
  virtual Result<Ref<Chan>> open(uint32_t flags) = 0;
  // The files that are open reach it no more.
  virtual void hang_up() = 0;

  ForegroundJob job;  // under process_lock

 protected:
  constexpr SessionTerminal() = default;
  ~SessionTerminal() = default;

 private:
  virtual void end() = 0;  // the last reference is gone
};

// About the current process, as all up to job_terminal. Those in the background of the terminal's
// session get SIGTTIN or SIGTTOU, with their group, and EINTR, so that the call is made again when
// they go on; EIO if nobody would make them go on (an orphaned group), or they read and SIGTTIN
// does not stop them.

// May read: EIO in another session.
Result<void> job_check_read(const SessionTerminal& terminal);
// May write although the modes want only the foreground to (TOSTOP).
Result<void> job_check_write(const SessionTerminal& terminal);
// May set the modes: EPERM in another session.
Result<void> job_check_modes(const SessionTerminal& terminal);
// Puts `group` in the foreground. ENOTTY if the terminal is not the process's; EPERM if the group
// is not its session's.
Result<void> job_set_foreground(SessionTerminal& terminal, uint32_t group);
// Makes the terminal the session's. EPERM if the process is no leader, has another terminal or may
// not have this one. It is another session's: EPERM, unless root steals it.
enum class Steal : bool { kNo, kYes };
Result<void> job_acquire(SessionTerminal& terminal, Steal steal);
// The leader gives the terminal up for the session, another process for itself. ENOTTY.
Result<void> job_leave(SessionTerminal& terminal);
// The group in the foreground of the process's terminal, and that terminal's session. ENOTTY.
Result<uint32_t> job_foreground(const SessionTerminal& terminal);
Result<uint32_t> job_session(const SessionTerminal& terminal);
// The process's terminal; nothing if it has none.
Ref<SessionTerminal> job_terminal();

// The foreground of whichever session has the terminal; 0 if none has.
uint32_t job_any_foreground(const SessionTerminal& terminal);
// A signal that was typed, with the rights of who put the group in the foreground. Any context.
void job_signal(const ForegroundJob& job, int signal);
// The terminal has another size.
void job_resized(const SessionTerminal& terminal);
// The terminal is gone: SIGHUP to the session's leader and the foreground.
void job_hang_up(SessionTerminal& terminal);
// The terminal's memory is about to be.
void job_forget(SessionTerminal& terminal);
