// System calls on processes: fork, exec, wait, exit, groups and sessions.
#include "arch/x86_64/interrupts.h"
#include "core/planted.h"
#include "intern/context.h"
#include "kmalloc.h"
#include "proc/system_call_impl.h"
#include "proc/user_probes_impl.h"
#include "proc/wait_impl.h"

namespace {

// Copies everything that a child inherits. The child gets one thread, a copy of `from`.
Result<void> copy_process(Thread& from, Process& child, TrapFrame frame) {
  Process& parent = from.process;
  child.space = TRY(parent.space->fork());
  child.fds = TRY(fd_table_copy(*parent.fds));
  child.ns = parent.ns;
  child.umask = parent.umask.load();
  {
    const Guard guard(parent.paths_lock);
    child.cwd = parent.cwd;
  }
  frame.rax = 0;
  Thread& thread = *TRY(thread_create(child, frame));
  thread.user_registers.fs_base = from.user_registers.fs_base;
  thread.signal_stack = from.signal_stack;
  thread.task->extra_slice = from.task->extra_slice;
  {
    const InterruptsOff off;
    fpu_save(*thread.user_registers.fpu);
  }
  {
    const Guard guard(process_lock);
    thread.blocked = from.blocked;
    child.who = parent.who;
    child.account = parent.account;
    child.secure = parent.secure;
    child.left_terminal = parent.left_terminal;
    child.actions = parent.actions;
    child.limits = parent.limits;
    child.nice = parent.nice;
    process_set_path(child, parent.path);
    child.program = parent.program;
  }
  timers_cpu_limited(child);
  return process_insert(child, &parent);
}

// Returns the process that getpgid, setpgid or getsid selects. ESRCH.
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
  call.thread.restart = Restart::kAlways;
  Process* const child = TRY(process_create());
  Result<void> result = process_begin_fork(call.thread, *child);
  if (result) result = copy_process(call.thread, *child, call.frame);
  if (!result) {
    if (result.error() == Errno::ENOMEM && planted(Planted::kForkError)) child->fds = nullptr;
    if (planted(Planted::kForkSpace)) static_cast<void>(child->space.release());
    process_discard(child);
    return result.error();
  }
  const uint32_t pid = child->pid;
  Thread& thread = *child->threads.front();
  task_forked(*call.thread.task, *thread.task);
  thread_start(thread);
  return pid;
}

namespace {

// Memory of sys_execve().
struct Executing {
  UserPath path;
  LoadedProgram program;
  char name[kMaxPath];  // the present path of the program
};

}  // namespace

Result<int64_t> sys_execve(const SystemCall& call) {
  Process& process = call.process;
  const auto executing = TRY(Scratch<Executing>::make());
  UserPath& path = executing->path;
  LoadedProgram& program = executing->program;
  TRY(path.copy(call.arguments[0]));
  {
    Arguments arguments;
    arguments.arguments = TRY(arguments.add_from_user(call.arguments[1]));
    if (arguments.arguments == 0) {
      TRY(arguments.add(""));
      arguments.arguments = 1;
    }
    arguments.environment = TRY(arguments.add_from_user(call.arguments[2]));
    TRY(program_load(process.path_context(), path.view(), arguments, program));
  }
  // A program that has other rights than its caller must not get a file of its own as its standard
  // error because the caller has closed descriptor 2.
  Ref<Chan> null;
  if (program.secure) null = TRY(path_open(process.path_context(), "#null/null", ABI_O_RDWR, 0));
  uint64_t named_at;
  const size_t name_length = chan_copy_path(*program.file, executing->name, named_at);
  TRY(threads_end_others());
  // Nothing fails from here on.
  user_probes_thread_left(call.thread.id());
  user_probes_process_left(process.pid, ProcessLeft::kOtherProgram);
  posix_timers_delete(process);
  fd_close_for_exec(*process.fds);
  if (null) fd_fill_standard(*process.fds, null);
  {
    Thread& thread = call.thread;
    const Guard guard(process_lock);
    process.max_resident = process_usage(process).max_resident;
    std::swap(process.space, program.space);
    process.space->activate();
    thread.id_address = 0;
    thread.signal_stack = {.base = 0, .flags = ABI_SS_DISABLE, .unused = 0, .size = 0};
    user_registers_set_fs_base(thread.user_registers, 0);
    fpu_init(*thread.user_registers.fpu);
    fpu_restore(*thread.user_registers.fpu);
    process_set_path(process,
                     name_length ? std::string_view(executing->name, name_length) : path.view());
    signals_reset_for_exec(process);
    process.program = program.description;
    const Guard paths_guard(process.paths_lock);
    process.who = program.who;
    process.secure = program.secure;
    thread.task->thread_in_context = 0;
    trace_program_changed(*thread.task);
  }
  call.frame = program.frame;
  return static_cast<int64_t>(call.frame.rax);  // `program` releases the old space
}

Result<int64_t> sys_wait4(const SystemCall& call) {
  constexpr uint32_t kOptions = ABI_WNOHANG | ABI_WUNTRACED | ABI_WCONTINUED;
  const uint32_t options = call.word(2);
  if (options & ~kOptions) return Errno::EINVAL;
  const int pid = call.integer(0);
  ChildChoice choice;
  if (pid > 0) {
    choice = {ABI_P_PID, static_cast<uint32_t>(pid)};
  } else if (pid != -1) {
    choice = {ABI_P_PGID, pid == 0 ? call.process.group : 0 - static_cast<uint32_t>(pid)};
  }
  const WaitResult ended = TRY(process_wait(choice, options | ABI_WEXITED));
  if (ended.pid != 0 && call.arguments[1]) TRY(put_user(call.arguments[1], ended.status));
  if (call.arguments[3]) TRY(put_user(call.arguments[3], rusage_of(ended.usage)));
  return ended.pid;
}

Result<int64_t> sys_waitid(const SystemCall& call) {
  constexpr uint32_t kKinds = ABI_WEXITED | ABI_WUNTRACED | ABI_WCONTINUED;
  const int which = call.integer(0), id = call.integer(1);
  const uint32_t options = call.word(3);
  if ((options & ~(kKinds | ABI_WNOHANG | ABI_WNOWAIT)) || !(options & kKinds))
    return Errno::EINVAL;
  if (which < ABI_P_ALL || which > ABI_P_PGID) return Errno::EINVAL;
  if (which != ABI_P_ALL && (id < 0 || (id == 0 && which == ABI_P_PID))) return Errno::EINVAL;
  const bool own_group = which == ABI_P_PGID && id == 0;
  const ChildChoice choice{which, own_group ? call.process.group : static_cast<uint32_t>(id)};
  const WaitResult ended = TRY(process_wait(choice, options));
  abi_siginfo info{};
  if (ended.pid != 0) {
    info.signo = ABI_SIGCHLD;
    info.code = ended.info.code;
    info.status = ended.info.status;
    info.pid = static_cast<int32_t>(ended.pid);
    info.uid = ended.info.uid;
  }
  if (call.arguments[2]) TRY(put_user(call.arguments[2], info));
  if (call.arguments[4]) TRY(put_user(call.arguments[4], rusage_of(ended.usage)));
  return 0;
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
  process_move(process, wanted, process.session);
  return 0;
}

Result<int64_t> sys_getsid(const SystemCall& call) {
  const Guard guard(process_lock);
  return TRY(process_or_self(call, call.integer(0)))->session;
}

Result<int64_t> sys_setsid(const SystemCall& call) {
  const Guard guard(process_lock);
  // EPERM if a group has the process's PID as its number. Such a group exists if the process leads
  // a group, or has left the group but other members remain.
  for (const Process& other : all_processes) {
    if (other.group == call.process.pid) return Errno::EPERM;
  }
  process_move(call.process, call.process.pid, call.process.pid);
  call.process.left_terminal = false;
  return call.process.pid;
}

Result<int64_t> sys_umask(const SystemCall& call) {
  return call.process.umask.exchange(call.word(0) & 0777);
}

Result<int64_t> sys_set_tls(const SystemCall& call) {
  if (call.arguments[0] >= kUserEnd) return Errno::EINVAL;
  user_registers_set_fs_base(call.thread.user_registers, call.arguments[0]);
  return 0;
}

Result<int64_t> sys_yield(const SystemCall&) {
  task_yield();
  return 0;
}
