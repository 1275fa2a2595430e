#include "proc/job_control.h"

#include "core/errstr.h"
#include "proc/process_impl.h"

namespace {

Process* leader_of(const ForegroundJob& job) REQUIRES(process_lock) {
  Process* const leader = process_find(job.leader);
  const bool leads =
      leader && leader->state == ProcessState::kAlive && leader->session == leader->pid;
  return leads ? leader : nullptr;
}

bool is_in(const Process& process, const ForegroundJob& job) REQUIRES(process_lock) {
  return process.session == job.leader.pid && process.group == job.group;
}

bool has(const Process& process, const SessionTerminal& terminal) REQUIRES(process_lock) {
  return process_terminal(process) == &terminal;
}

void signal_group(uint32_t session, uint32_t group, int signal) REQUIRES(process_lock) {
  for (Process& process : all_processes) {
    if (process.group == group && process.session == session)
      signal_post_to_member(process, signal);
  }
}

// Sends the stop signal `signal` to the group of the background process `member`, and returns
// EINTR. If the group is orphaned, sends no signal and returns EIO.
Errno stop_group(const Process& member, int signal) REQUIRES(process_lock) {
  if (job_is_orphaned(member)) return Errno::EIO;
  signal_group(member.session, member.group, signal);
  return Errno::EINTR;
}

// True if `signal` reaches the current thread: the thread does not block it, and `process`, its
// process, does not ignore it.
bool stops_for(const Process& process, int signal) REQUIRES(process_lock) {
  return !(self_thread().blocked & signal_bit(signal)) &&
         process.actions[signal].handler != ABI_SIG_IGN;
}

// Checks whether the current process, a member of the terminal's session, may change the terminal.
// A background process may do so only if it blocks or ignores SIGTTOU. Otherwise its group gets
// SIGTTOU and the check fails.
Result<void> check_change(const Process& process, const ForegroundJob& job) REQUIRES(process_lock) {
  if (is_in(process, job) || !stops_for(process, ABI_SIGTTOU)) return {};
  return stop_group(process, ABI_SIGTTOU);
}

// Takes the terminal from its session.
void take_from_session(SessionTerminal& terminal) REQUIRES(process_lock) {
  Process* const leader = process_find(terminal.job.leader);
  if (leader && leader->terminal == &terminal) leader->terminal = nullptr;
  terminal.job = {};
}

// Sends SIGHUP and SIGCONT to the foreground group of a session that loses its terminal.
void hang_up_foreground(const ForegroundJob& job) REQUIRES(process_lock) {
  signal_group(job.leader.pid, job.group, ABI_SIGHUP);
  signal_group(job.leader.pid, job.group, ABI_SIGCONT);
}

}  // namespace

SessionTerminal* process_terminal(const Process& process) {
  if (process.left_terminal) return nullptr;
  const Process* const leader = process_find(process.session);
  return leader && leader->session == leader->pid ? leader->terminal : nullptr;
}

bool job_is_orphaned(const Process& member) {
  for (const Process& process : all_processes) {
    if (process.group != member.group || process.session != member.session || !process.parent)
      continue;
    if (process.state != ProcessState::kAlive) continue;
    if (process.parent->session == member.session && process.parent->group != member.group)
      return false;
  }
  return true;
}

void job_parent_left(const Process& member) {
  if (!job_is_orphaned(member)) return;
  bool any_stopped = false;
  for (const Process& process : all_processes) {
    any_stopped |=
        process.stopped && process.group == member.group && process.session == member.session;
  }
  if (!any_stopped) return;
  signal_group(member.session, member.group, ABI_SIGHUP);
  signal_group(member.session, member.group, ABI_SIGCONT);
}

Ref<SessionTerminal> job_leader_ended(Process& leader) {
  if (!leader.terminal) return {};
  SessionTerminal& terminal = *leader.terminal;
  const ForegroundJob job = terminal.job;
  take_from_session(terminal);
  hang_up_foreground(job);
  return Ref<SessionTerminal>::try_take(terminal);
}

Result<void> job_check_read(const SessionTerminal& terminal) {
  const Process* const process = current_process();
  if (!process) return {};
  const Guard guard(process_lock);
  const ForegroundJob& job = terminal.job;
  if (!leader_of(job) || is_in(*process, job)) return {};
  if (process->session != job.leader.pid || !stops_for(*process, ABI_SIGTTIN)) return Errno::EIO;
  return stop_group(*process, ABI_SIGTTIN);
}

Result<void> job_check_write(const SessionTerminal& terminal) {
  const Process* const process = current_process();
  if (!process) return {};
  const Guard guard(process_lock);
  if (!has(*process, terminal)) return {};
  return check_change(*process, terminal.job);
}

Result<void> job_check_modes(const SessionTerminal& terminal) {
  const Process* const process = current_process();
  if (!process) return {};
  const Guard guard(process_lock);
  if (has(*process, terminal)) return check_change(*process, terminal.job);
  const uint32_t uid = process->who.uid;
  return uid == 0 || uid == terminal.owner() ? Result<void>() : Errno::EPERM;
}

Result<void> job_set_foreground(SessionTerminal& terminal, uint32_t group) {
  const Process& process = self();
  const Guard guard(process_lock);
  if (!has(process, terminal)) return Errno::ENOTTY;
  const ForegroundJob next{.leader = terminal.job.leader, .group = group, .who = process.who};
  TRY(check_change(process, terminal.job));
  for (const Process& other : all_processes) {
    if (!is_in(other, next)) continue;
    terminal.job = next;
    return {};
  }
  return Errno::EPERM;
}

Result<void> job_acquire(SessionTerminal& terminal, Steal steal) {
  Process& process = self();
  const Guard guard(process_lock);
  if (process.terminal == &terminal) return {};
  if (process.session != process.pid || process.terminal) return Errno::EPERM;
  const uint32_t uid = process.who.uid;
  if (uid != 0 && uid != terminal.owner()) return Errno::EPERM;
  if (leader_of(terminal.job) && (steal == Steal::kNo || uid != 0)) return Errno::EPERM;
  take_from_session(terminal);
  process.terminal = &terminal;
  process.left_terminal = false;
  terminal.job = {.leader = process.id(), .group = process.group, .who = process.who};
  return {};
}

Result<void> job_leave(SessionTerminal& terminal) {
  Process& process = self();
  const Guard guard(process_lock);
  if (!has(process, terminal)) return Errno::ENOTTY;
  if (process.terminal != &terminal) {
    process.left_terminal = true;
    return {};
  }
  hang_up_foreground(terminal.job);
  take_from_session(terminal);
  return {};
}

Result<uint32_t> job_foreground(const SessionTerminal& terminal) {
  const Process& process = self();
  const Guard guard(process_lock);
  if (!has(process, terminal)) return Errno::ENOTTY;
  return terminal.job.group;
}

Result<uint32_t> job_session(const SessionTerminal& terminal) {
  const Process& process = self();
  const Guard guard(process_lock);
  if (!has(process, terminal)) return Errno::ENOTTY;
  return terminal.job.leader.pid;
}

Ref<SessionTerminal> job_terminal() {
  const Process* const process = current_process();
  if (!process) return {};
  const Guard guard(process_lock);
  SessionTerminal* const terminal = process_terminal(*process);
  return terminal ? Ref<SessionTerminal>::try_take(*terminal) : Ref<SessionTerminal>();
}

uint32_t job_any_foreground(const SessionTerminal& terminal) {
  const Guard guard(process_lock);
  return leader_of(terminal.job) ? terminal.job.group : 0;
}

void job_signal(const ForegroundJob& job, int signal) {
  const Guard guard(process_lock);
  if (!leader_of(job)) return;
  for (Process& process : all_processes) {
    if (is_in(process, job) && signal_permitted(process, job.who))
      signal_post_to_member(process, signal);
  }
}

void job_resized(const SessionTerminal& terminal) {
  const Guard guard(process_lock);
  const ForegroundJob& job = terminal.job;
  if (leader_of(job)) signal_group(job.leader.pid, job.group, ABI_SIGWINCH);
}

void job_hang_up(SessionTerminal& terminal) {
  const Guard guard(process_lock);
  const ForegroundJob job = terminal.job;
  Process* const leader = leader_of(job);
  take_from_session(terminal);
  if (!leader) return;
  if (!is_in(*leader, job)) {
    signal_post(*leader, ABI_SIGHUP);
    signal_post(*leader, ABI_SIGCONT);
  }
  hang_up_foreground(job);
}

void job_forget(SessionTerminal& terminal) {
  const Guard guard(process_lock);
  take_from_session(terminal);
}
