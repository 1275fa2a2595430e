#include "proc/job_control.h"

#include "core/errstr.h"
#include "proc/process_impl.h"

namespace {

bool is_held(const ForegroundJob& job) REQUIRES(process_lock) {
  const Process* const leader = process_find(job.leader);
  return leader && leader->state == ProcessState::kAlive && leader->session == leader->pid;
}

bool is_in(const Process& process, const ForegroundJob& job) REQUIRES(process_lock) {
  return process.session == job.leader.pid && process.group == job.group;
}

// For a process in the background, whom `signal` stops with its group.
Errno stop_group(const Process& member, int signal) REQUIRES(process_lock) {
  if (job_is_orphaned(member)) return Errno::EIO;
  for (Process& process : all_processes) {
    if (process.group == member.group && process.session == member.session)
      signal_post_to_member(process, signal);
  }
  return Errno::EINTR;
}

bool stops_for(const Process& process, int signal) REQUIRES(process_lock) {
  return !(process.blocked & (uint64_t{1} << signal)) &&
         process.actions[signal].handler != ABI_SIG_IGN;
}

// The terminal is held by the process's session.
Result<void> check_change(const Process& process, const ForegroundJob& job) REQUIRES(process_lock) {
  if (is_in(process, job) || !stops_for(process, ABI_SIGTTOU)) return {};
  return stop_group(process, ABI_SIGTTOU);
}

}  // namespace

bool job_is_orphaned(const Process& member) {
  for (const Process& process : all_processes) {
    if (process.group != member.group || process.session != member.session || !process.parent)
      continue;
    if (process.parent->session == member.session && process.parent->group != member.group)
      return false;
  }
  return true;
}

Result<void> job_check_read(const ForegroundJob& now) {
  const Process& process = self();
  const Guard guard(process_lock);
  if (!is_held(now) || is_in(process, now)) return {};
  if (process.session != now.leader.pid || !stops_for(process, ABI_SIGTTIN)) return Errno::EIO;
  return stop_group(process, ABI_SIGTTIN);
}

Result<void> job_check_modes(const ForegroundJob& now) {
  const Process& process = self();
  const Guard guard(process_lock);
  if (is_held(now) && process.session == now.leader.pid) return check_change(process, now);
  return process.who.uid == 0 ? Result<void>() : Errno::EPERM;
}

Result<ForegroundJob> job_to_foreground(const ForegroundJob& now, uint32_t group) {
  const Process& process = self();
  const Guard guard(process_lock);
  ForegroundJob next{.leader = now.leader, .group = group, .who = process.who};
  if (!is_held(now)) {
    if (process.session != process.pid || process.who.uid != 0) return Errno::ENOTTY;
    next.leader = process.id();
  } else if (process.session != now.leader.pid) {
    return Errno::ENOTTY;
  } else {
    TRY(check_change(process, now));
  }
  for (const Process& other : all_processes) {
    if (is_in(other, next)) return next;
  }
  return Errno::EPERM;
}

void job_signal(const ForegroundJob& now, int signal) {
  const Guard guard(process_lock);
  if (!is_held(now)) return;
  for (Process& process : all_processes) {
    if (is_in(process, now) && signal_permitted(process, now.who))
      signal_post_to_member(process, signal);
  }
}
