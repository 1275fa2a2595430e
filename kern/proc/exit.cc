// The end of processes, and how their parents learn of it.
#include "arch/x86_64/interrupts.h"
#include "core/log.h"
#include "proc/job_control.h"
#include "proc/process_impl.h"
#include "proc/user_probes_impl.h"
#include "proc/wait_impl.h"

namespace {

// True if `process`, the parent of `child`, kept the child's group from being orphaned. A parent
// does so if it is in the child's session but not in the child's group.
bool was_link(const Process& process, const Process& child) REQUIRES(process_lock) {
  return child.session == process.session && child.group != process.group;
}

// Makes process 1 the parent of all children of `process`, which is ending. Process 1 then reaps
// the children that are zombies. Releases process_lock after each child, because job_parent_left()
// goes through all processes.
void reparent_children(Process& process) {
  for (;;) {
    const Guard guard(process_lock);
    Process* const child = process.children.pop_front();
    if (!child) return;
    Process* const init = process_find(kInitPid);
    child->parent = init;
    init->children.push_back(*child);
    if (was_link(process, *child)) job_parent_left(*child);
    if (child->state != ProcessState::kZombie) continue;
    signal_post(*init, ABI_SIGCHLD);
    init->child_wait.wake_all();
  }
}

// Begins the end of the process. After this call no signal reaches the process, and it has no
// timers. If the process leads its session, the session loses its terminal.
void begin_end(Process& process) {
  Ref<SessionTerminal> terminal;
  SignalQueue dropped;
  {
    const Guard guard(process_lock);
    process.state = ProcessState::kExiting;
    signal_discard(process, ~uint64_t{0}, dropped);
    terminal = job_leader_ended(process);
  }
  signal_queue_free(dropped);
  timers_end(process);
  if (terminal) terminal->hang_up();
}

bool ignores_children(const Process& parent) REQUIRES(process_lock) {
  const abi_sigaction& action = parent.actions[ABI_SIGCHLD];
  return action.handler == ABI_SIG_IGN || (action.flags & ABI_SA_NOCLDWAIT);
}

bool matches(const Process& child, const ChildChoice& choice) REQUIRES(process_lock) {
  if (choice.which == ABI_P_ALL) return true;
  return choice.id == (choice.which == ABI_P_PID ? child.pid : child.group);
}

}  // namespace

void process_exit(int status) {
  Thread& thread = self_thread();
  Process& process = thread.process;
  {
    const Guard guard(process_lock);
    if (!process.ending) {
      process.ending = true;
      process.exit_status = status;
      process.stopped = false;
      process.stop_wait.wake_all();
      process.thread_left.wake_all();
      threads_interrupt(process, &thread);
    }
  }
  thread_exit();
}

void process_end(Process& process) {
  Thread& thread = self_thread();
  if (process.pid == kInitPid)
    panic("process 1 (%s) has ended with status 0x%x", process.path, process.exit_status);
  begin_end(process);
  user_probes_process_left(process.pid, ProcessLeft::kEnded);
  process_release_parts(process);
  reparent_children(process);

  bool reap = false;
  {
    const Guard guard(process_lock);
    task_will_exit();
    process.ended_usage = process_usage(process);
    process.last_thread_charge = std::move(thread.charge);
    thread.link.unlink();
    process.thread_count--;
    task_leave_process();
    process.state = ProcessState::kZombie;
    Process& parent = *process.parent;
    if (was_link(parent, process)) job_parent_left(process);
    reap = ignores_children(parent);
    signal_parent(process, process.exit_status);
    if (reap) process_remove(process);
  }
  if (reap) process_free(&process);
}

namespace {

// True if the child has a change of state to report. In this case sets `status` to the status that
// wait4 returns.
bool has_news(Process& child, uint32_t options, int& status) REQUIRES(process_lock) {
  const bool counts = !(options & ABI_WNOWAIT);
  if (child.state == ProcessState::kZombie) {
    status = child.exit_status;
    return options & ABI_WEXITED;
  }
  if ((options & ABI_WUNTRACED) && child.stopped && child.stop_told && !child.stop_reported) {
    child.stop_reported = counts;
    status = child.stop_signal << 8 | 0x7f;
    return true;
  }
  if ((options & ABI_WCONTINUED) && child.continued) {
    child.continued = !counts;
    status = 0xffff;
    return true;
  }
  return false;
}

}  // namespace

Result<WaitResult> process_wait(const ChildChoice& choice, uint32_t options) {
  Process& parent = self();
  Process* ended = nullptr;
  WaitResult found{};
  {
    const Guard guard(process_lock);
    bool any = false;
    const auto look = [&]() REQUIRES(process_lock) {
      any = false;
      for (Process& child : parent.children) {
        if (!matches(child, choice)) continue;
        any = true;
        if (!has_news(child, options, found.status)) continue;
        found.pid = child.pid;
        found.info = child_info(child, found.status);
        if (child.state != ProcessState::kZombie) return true;
        found.usage = process_usage(child);
        found.usage.add(child.child_usage);
        if (!(options & ABI_WNOWAIT)) ended = &child;
        return true;
      }
      return !any;
    };
    if (options & ABI_WNOHANG) {
      look();
    } else {
      TRY(parent.child_wait.wait(process_lock, look));
    }
    if (!any) return Errno::ECHILD;
    if (ended) {
      parent.child_usage.add(found.usage);
      process_remove(*ended);
    }
  }
  if (ended) process_free(ended);
  return found;
}
