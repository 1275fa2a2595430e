// How processes end, and how their parents learn of it.
#include "arch/x86_64/interrupts.h"
#include "core/log.h"
#include "proc/job_control.h"
#include "proc/process_impl.h"
#include "proc/user_probes.h"
#include "proc/wait.h"

namespace {

// Whether the process kept its child's group from being orphaned.
bool was_link(const Process& process, const Process& child) REQUIRES(process_lock) {
  return child.session == process.session && child.group != process.group;
}

// Children of a process that ends go to process 1, which has to reap those that are zombies. One at
// a time: a look at the groups that this leaves orphaned goes through all processes.
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

// From now on signals do not reach it. Its session loses the terminal if it was the leader.
void begin_exit(Process& process) {
  Ref<SessionTerminal> terminal;
  {
    const Guard guard(process_lock);
    process.state = ProcessState::kExiting;
    process.pending = 0;
    process.task->interrupted = false;  // what follows may sleep
    terminal = job_leader_ended(process);
  }
  if (terminal) terminal->hang_up();
}

bool ignores_children(const Process& parent) REQUIRES(process_lock) {
  return parent.actions[ABI_SIGCHLD].handler == ABI_SIG_IGN;
}

bool matches(const Process& child, const Process& parent, int32_t pid) REQUIRES(process_lock) {
  if (pid > 0) return child.pid == static_cast<uint32_t>(pid);
  if (pid == -1) return true;
  return child.group == (pid == 0 ? parent.group : static_cast<uint32_t>(-pid));
}

}  // namespace

void process_exit(int status) {
  Process& process = self();
  Task* const task = current_task();
  if (process.pid == kInitPid)
    panic("process 1 (%s) has ended with status 0x%x", process.path, status);
  begin_exit(process);
  user_probes_process_left(process.pid, ProcessLeft::kEnded);
  process_release_parts(process);
  reparent_children(process);

  bool reap = false;
  {
    const Guard guard(process_lock);
    task_will_exit();
    process.user_ticks = task->user_ticks;
    process.system_ticks = task->system_ticks;
    task->process = nullptr;
    task->fpu = nullptr;
    process.task = nullptr;
    process.exit_status = status;
    process.state = ProcessState::kZombie;
    Process& parent = *process.parent;
    if (was_link(parent, process)) job_parent_left(process);
    if (ignores_children(parent)) {
      process_remove(process);
      parent.child_wait.wake_all();
      reap = true;
    } else {
      signal_parent(process, true);
    }
  }
  if (reap) process_free(&process);
  task_exit();
}

Result<WaitResult> process_wait(int32_t pid, uint32_t options) {
  Process& parent = self();
  Process* ended = nullptr;
  WaitResult found{};
  {
    const Guard guard(process_lock);
    bool any = false;
    const auto look = [&]() NO_THREAD_SAFETY_ANALYSIS {  // wait calls it with the lock held
      any = false;
      for (Process& child : parent.children) {
        if (!matches(child, parent, pid)) continue;
        any = true;
        if (child.state == ProcessState::kZombie) {
          ended = &child;
          found.pid = child.pid;
          found.status = child.exit_status;
          return true;
        }
        if ((options & ABI_WUNTRACED) && child.stopped && !child.stop_reported) {
          child.stop_reported = true;
          found.pid = child.pid;
          found.status = child.stop_signal << 8 | 0x7f;
          return true;
        }
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
      found.user_ticks = ended->user_ticks + ended->child_user_ticks;
      found.system_ticks = ended->system_ticks + ended->child_system_ticks;
      parent.child_user_ticks += found.user_ticks;
      parent.child_system_ticks += found.system_ticks;
      process_remove(*ended);
    }
  }
  if (ended) process_free(ended);
  return found;
}
