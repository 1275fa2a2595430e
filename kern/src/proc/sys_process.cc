// System calls on processes: fork, exec, wait, exit, groups and sessions.
#include "arch/x86_64/interrupts.h"
#include "core/planted.h"
#include "proc/system_call.h"
#include "proc/user_probes.h"
#include "proc/wait.h"
#include "store/context.h"

namespace {

// What waits is the parent's alone, and before the fork. What comes to its group from now on is the
// child's too (process_insert).
Result<void> begin_fork(Process& parent) {
  const Guard guard(process_lock);
  if (signal_deliverable(parent)) return Errno::EINTR;
  parent.group_signals = 0;
  return {};
}

// Everything that a child has of its parent.
Result<void> copy_process(Process& parent, Process& child, const TrapFrame& frame) {
  child.space = TRY(parent.space->fork());
  child.fds = TRY(fd_table_copy(*parent.fds));
  child.ns = parent.ns;
  child.cwd = parent.cwd;
  child.umask = parent.umask;
  child.start_frame = frame;
  child.start_frame.rax = 0;
  {
    const InterruptsOff off;
    fpu_save(child.fpu);
  }
  {
    const Guard guard(process_lock);
    child.who = parent.who;
    child.secure = parent.secure;
    child.left_terminal = parent.left_terminal;
    child.blocked = parent.blocked;
    child.actions = parent.actions;
    process_set_path(child, parent.path);
    child.program = parent.program;
  }
  TRY(process_make_task(child));
  return process_insert(child, &parent);
}

// The process that setpgid and getpgid are about. ESRCH.
Result<Process*> process_or_self(const SystemCall& call, int pid) REQUIRES(process_lock) {
  if (pid == 0) return &call.process;
  Process* const process = pid > 0 ? process_find(static_cast<uint32_t>(pid)) : nullptr;
  if (!process) return Errno::ESRCH;
  return process;
}

}  // namespace

Result<int64_t> sys_exit(const SystemCall& call) {
  process_exit(exited_status(call.integer(0)));
}

Result<int64_t> sys_fork(const SystemCall& call) {
  TRY(begin_fork(call.process));
  Process* const child = TRY(process_create());
  const Result<void> result = copy_process(call.process, *child, call.frame);
  if (!result) {
    if (result.error() == Errno::ENOMEM && planted(Planted::kForkError)) child->fds = nullptr;
    if (planted(Planted::kForkSpace)) static_cast<void>(child->space.release());
    process_discard(child);
    return result.error();
  }
  const uint32_t pid = child->pid;
  task_forked(*call.process.task, *child->task);
  task_start(child->task);
  return pid;
}

Result<int64_t> sys_execve(const SystemCall& call) {
  Process& process = call.process;
  UserPath path;
  TRY(path.copy(call.arguments[0]));
  LoadedProgram program;
  {
    Arguments arguments;
    arguments.arguments = TRY(arguments.add_from_user(call.arguments[1]));
    if (arguments.arguments == 0) {
      TRY(arguments.add(""));
      arguments.arguments = 1;
    }
    arguments.environment = TRY(arguments.add_from_user(call.arguments[2]));
    program = TRY(program_load(process.path_context(), path.view(), arguments));
  }
  // From here on nothing fails.
  user_probes_process_left(process.pid, ProcessLeft::kOtherProgram);
  fd_close_for_exec(*process.fds);
  {
    const Guard guard(process_lock);
    std::swap(process.space, program.space);
    process.space->activate();
    fpu_init(process.fpu);
    fpu_restore(process.fpu);
    process_set_path(process, program.file->path ? program.file->path : path.view());
    signals_reset_for_exec(process);
    process.program = program.description;
    process.who = program.who;
    process.secure = program.secure;
    trace_program_changed(*process.task);
  }
  call.frame = program.frame;
  return 0;  // and the old address space goes
}

Result<int64_t> sys_wait4(const SystemCall& call) {
  const WaitResult ended = TRY(process_wait(call.integer(0), call.word(2)));
  if (ended.pid != 0 && call.arguments[1]) TRY(put_user(call.arguments[1], ended.status));
  if (call.arguments[3])
    TRY(put_user(call.arguments[3], rusage_of(ended.user_ticks, ended.system_ticks)));
  return ended.pid;
}

Result<int64_t> sys_getpid(const SystemCall& call) {
  return call.process.pid;
}

Result<int64_t> sys_getppid(const SystemCall& call) {
  const Guard guard(process_lock);
  return call.process.parent ? call.process.parent->pid : 0;
}

Result<int64_t> sys_getpgid(const SystemCall& call) {
  const Guard guard(process_lock);
  return TRY(process_or_self(call, call.integer(0)))->group;
}

Result<int64_t> sys_setpgid(const SystemCall& call) {
  const int group = call.integer(1);
  if (group < 0) return Errno::EINVAL;
  const Guard guard(process_lock);
  Process& process = *TRY(process_or_self(call, call.integer(0)));
  if (&process != &call.process && process.parent != &call.process) return Errno::ESRCH;
  if (process.session != call.process.session || process.session == process.pid)
    return Errno::EPERM;
  const uint32_t wanted = group == 0 ? process.pid : static_cast<uint32_t>(group);
  bool exists = wanted == process.pid;
  for (const Process& other : all_processes)
    exists |= other.group == wanted && other.session == process.session;
  if (!exists) return Errno::EPERM;
  process.group = wanted;
  return 0;
}

Result<int64_t> sys_getsid(const SystemCall& call) {
  const Guard guard(process_lock);
  return TRY(process_or_self(call, call.integer(0)))->session;
}

Result<int64_t> sys_setsid(const SystemCall& call) {
  const Guard guard(process_lock);
  // Of its own group, or one that it has left to others.
  for (const Process& other : all_processes) {
    if (other.group == call.process.pid) return Errno::EPERM;
  }
  call.process.group = call.process.session = call.process.pid;
  call.process.left_terminal = false;
  return call.process.pid;
}

Result<int64_t> sys_umask(const SystemCall& call) {
  return std::exchange(call.process.umask, call.word(0) & 0777);
}

Result<int64_t> sys_yield(const SystemCall&) {
  task_yield();
  return 0;
}
