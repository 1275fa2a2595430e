// Processes.
//
// A process has an address space, descriptors, a namespace, a position in the tree of processes,
// and threads (thread.cc). A process passes through these states:
//
//   created    by process_create; fork or process_start_init fills it in; not in the table yet
//   alive      in the table, from process_insert on, with one thread or more
//   ending     alive, but `ending` is set: each thread ends before it is in user mode again
//   exiting    the last thread frees everything but the structure; no signal is delivered any more
//   zombie     has no thread; only its parent, the table and lists point at it
//   gone       reaped by the parent's wait4, or at once if the parent ignores SIGCHLD
//
// The last thread first detaches its task from the process, so that the scheduler no longer uses
// the process. Only then does the thread make the process a zombie, because the parent may free a
// zombie at any time, even while the task is still running to its end.
//
// One lock, process_lock, guards the tree, the table, groups, states and signals of all processes.
// One lock suffices, because the operations that need it (fork, exit, wait, kill, changes of a
// signal mask) are rare and short. With a lock for each process, nearly every operation would need
// two locks, because it concerns two processes. Common paths of system calls do not take
// process_lock. Order: process_lock, then the scheduler's locks. Nothing is allocated or freed
// while process_lock is held.
//
// Every path lookup needs the current directory and the credentials, which the threads of a process
// share. A lock in each process, Process::paths_lock, guards them; a path lookup copies them under
// this lock.
//
// PIDs count up from 1 and wrap at 32767. A PID that is still the number of a group or session is
// not reused.
#include "proc/process.h"

#include <algorithm>

#include "arch/x86_64/time.h"
#include "core/errstr.h"
#include "core/log.h"
#include "core/planted.h"
#include "intern/context.h"
#include "kmalloc.h"
#include "lib/format.h"
#include "lib/string.h"
#include "ns/page_cache.h"
#include "proc/job_control.h"
#include "proc/out_of_memory_impl.h"
#include "proc/pid_numbers_impl.h"
#include "proc/process_impl.h"
#include "proc/ref_planted_impl.h"
#include "proc/system_call_impl.h"
#include "proc/user_probes_impl.h"

constinit Spinlock process_lock{LockRank::kProcessTable};
constinit AllProcesses all_processes;

namespace {

constinit ObjectCache<Process> process_cache;
constinit Process* table[kMaxPid + 1];
constinit PidNumbers numbers GUARDED_BY(process_lock);

// For the scheduler: activates the address space of the next task.
void activate(Process* process) {
  if (process && process->space) {
    process->space->activate();
  } else {
    AddressSpace::activate_none();
  }
}

void copy_name(char* to, size_t size, std::string_view from) {
  const size_t length = std::min(from.size(), size - 1);
  memcpy(to, from.data(), length);
  to[length] = '\0';
}

bool is_unprintable(char c) {
  return c != '\0' && (c < ' ' || c > '~');
}

char state_letter(const Process& process) REQUIRES(process_lock) {
  if (process.state == ProcessState::kZombie) return 'Z';
  if (process.stopped) return 'T';
  for (const Thread& thread : process.threads) {
    if (thread.task->state != TaskState::kSleeping) return 'R';
  }
  return 'S';
}

// Resolves a page fault of a system call even if a signal is pending. EINTR only if the thread is
// ending.
Result<void> fault_despite_signals(Thread& thread, uint64_t address, FaultAccess access) {
  for (;;) {
    {
      const Guard guard(process_lock);
      if (signal_ends(thread)) return Errno::EINTR;
      thread.task->interrupted = false;
    }
    Result<void> result = thread.process.space->fault(address, access);
    const Guard guard(process_lock);
    thread.task->interrupted = signal_deliverable(thread);
    if (result || result.error() != Errno::EINTR) return result;
  }
}

TraceProgram program_of(const TaskHead& task) {
  const ProgramDescription& program = task.process->program;
  return {.path = program.path, .build_id = {program.build_id, program.build_id_size}};
}

bool page_fault(TrapFrame& frame, uint64_t address, bool write, bool execute) {
  Process* const process = current_process();
  if (!process || !process->space) return false;
  const FaultAccess access = execute ? FaultAccess::kExecute
                             : write ? FaultAccess::kWrite
                                     : FaultAccess::kRead;
  Thread& thread = self_thread();
  const uint64_t read_before = process->space->pages_read();
  Result<void> result = process->space->fault(address, access);
  process->space->pages_read() == read_before ? thread.minor_faults++ : thread.major_faults++;
  if (!result && result.error() == Errno::EINTR) {
    // If the access was made in user mode, it faults again after the signals have been handled. A
    // system call must not fail because of a signal, so resolve its fault now.
    if (frame.from_user()) return true;
    result = fault_despite_signals(thread, address, access);
  }
  if (result) return true;
  if (result.error() != Errno::ENOMEM) {
    // EFAULT: the process may not access the address in this way. EINTR: the thread is ending, in a
    // system call. Any other error: the region's file ends before the page, or the page could not
    // be read.
    if (result.error() == Errno::EFAULT || !frame.from_user()) return false;
    signal_force(thread, ABI_SIGBUS, {.code = ABI_BUS_ADRERR, .word = address});
    return true;
  }
  if (thread.task->fault_injection.failed == 0 && page_cache_relieve()) return true;
  // If out_of_memory() returns true, the access is repeated, and faults again if there is still no
  // memory. If out_of_memory() returns false, the thread ends before it returns to user mode. If
  // the fault was in a system call, the call first gets EFAULT.
  return out_of_memory(thread, address) || frame.from_user();
}

}  // namespace

void Usage::add(const Usage& other) {
  user = user + other.user;
  system = system + other.system;
  max_resident = std::max(max_resident, other.max_resident);
  minor_faults += other.minor_faults;
  major_faults += other.major_faults;
  voluntary_switches += other.voluntary_switches;
  involuntary_switches += other.involuntary_switches;
}

Usage process_usage(const Process& process) {
  Usage usage = process.ended_usage;
  for (const Thread& thread : process.threads) usage.add(thread_usage(thread));
  const uint64_t resident = process.space ? process.space->max_resident_bytes() : 0;
  usage.max_resident = std::max(process.max_resident, resident);
  return usage;
}

Credentials Process::credentials() const {
  const Guard guard(paths_lock);
  return who;
}

PathContext Process::path_context() const {
  const Guard guard(paths_lock);
  return {ns.get(), cwd, who};
}

Process* current_process() {
  Task* const task = current_task();
  return task ? task->process : nullptr;
}

Result<Ref<Chan>> process_file(int fd) {
  Process* const process = current_process();
  if (!process || !process->fds) return Errno::EBADF;
  return fd_get(*process->fds, fd);
}

Process* process_find(uint32_t pid) {
  return pid <= kMaxPid ? table[pid] : nullptr;
}

Process* process_find(ProcessId id) {
  Process* const process = process_find(id.pid);
  return process && process->generation == id.generation ? process : nullptr;
}

Result<Process*> process_create() {
  Charge charge = TRY(charge_current(Charged::kProcess));
  Process* const process = TRY(process_cache.make(KM_SLEEP));
  process->charge = std::move(charge);
  process->started = monotonic_now();
  return process;
}

void process_release_parts(Process& process) {
  if (planted(Planted::kExitFiles)) process.fds = nullptr;
  if (process.fds) fd_table_destroy(std::exchange(process.fds, nullptr));
  process.cwd.reset();
  process.ns.reset();
  Ref<AddressSpace> space;
  {
    const Guard guard(process_lock);
    process.max_resident = process_usage(process).max_resident;
    std::swap(space, process.space);
    // The page tables must be active on no CPU when they are freed.
    if (space && current_task()->process == &process) AddressSpace::activate_none();
  }
}

Result<void> process_begin_fork(Thread& thread, Process& child) {
  const Guard guard(process_lock);
  if (signal_deliverable(thread)) return Errno::EINTR;
  thread.process.forked.push_back(child);
  return {};
}

void process_discard(Process* process) {
  {
    const Guard guard(process_lock);
    if (process->forked_link.linked()) process->forked_link.unlink();
  }
  if (Thread* const thread = process->threads.front()) thread_discard(thread);
  process_release_parts(*process);
  process_free(process);
}

void process_free(Process* process) {
  process_cache.destroy(process);
}

Result<void> process_insert(Process& process, Process* parent) {
  const Guard guard(process_lock);
  process.pid = TRY(numbers.take());
  process.generation = numbers.wraps();
  Thread& thread = *process.threads.front();
  thread.task->pid = process.pid;
  table[process.pid] = &process;
  all_processes.push_back(process);
  process.parent = parent;
  if (parent) {
    parent->children.push_back(process);
    process.group = parent->group;
    process.session = parent->session;
    // A signal that was sent to the parent's group during the fork counts as sent after the fork.
    // The child has it (process_begin_fork), so the fork need not be repeated.
    if (process.forked_link.linked()) process.forked_link.unlink();
    thread.task->interrupted = signal_deliverable(thread);
  } else {
    process.group = process.session = process.pid;
  }
  numbers.add_user(process.group);
  numbers.add_user(process.session);
  return {};
}

void process_move(Process& process, uint32_t group, uint32_t session) {
  numbers.add_user(group);
  numbers.add_user(session);
  numbers.drop_user(std::exchange(process.group, group));
  numbers.drop_user(std::exchange(process.session, session));
}

void process_remove(Process& process) {
  table[process.pid] = nullptr;
  for (const uint32_t number : {process.pid, process.group, process.session})
    numbers.drop_user(number);
  process.all_link.unlink();
  if (process.parent) process.sibling_link.unlink();
}

void process_set_path(Process& process, std::string_view path) {
  copy_name(process.path, sizeof(process.path), path);
  const size_t slash = path.rfind('/');
  copy_name(process.name, sizeof(process.name),
            slash == std::string_view::npos ? path : path.substr(slash + 1));
  std::ranges::replace_if(process.name, is_unprintable, '?');
  for (const Thread& thread : process.threads)
    memcpy(thread.task->name, process.name, sizeof(process.name));
}

Result<void> process_start_init(const char* path) {
  Process* const process = TRY(process_create());
  const Result<void> result = [&]() -> Result<void> {
    process->ns = TRY(namespace_create());
    process->fds = TRY(fd_table_create());
    Arguments arguments;
    TRY(arguments.add(path));
    arguments.arguments = 1;
    const auto program = TRY(Scratch<LoadedProgram>::make());
    TRY(program_load(process->path_context(), path, arguments, *program));
    process->space = std::move(program->space);
    process->program = program->description;
    TRY(thread_create(*process, program->frame));
    {
      const Guard guard(process_lock);
      process_set_path(*process, path);
    }
    return process_insert(*process, nullptr);
  }();
  if (!result) {
    process_discard(process);
    return result.error();
  }
  ASSERT(process->pid == kInitPid);
  thread_start(*process->threads.front());
  return {};
}

namespace {

Result<ProcessInfo> info_of(Process* process) REQUIRES(process_lock) {
  if (!process) return Errno::ESRCH;
  ProcessInfo info{};
  info.pid = process->pid;
  info.generation = process->generation;
  info.parent = process->parent ? process->parent->pid : 0;
  info.group = process->group;
  info.session = process->session;
  info.who = process->who;
  info.state = state_letter(*process);
  memcpy(info.name, process->name, sizeof(info.name));
  if (process->space) {
    info.memory_bytes = process->space->resident_bytes();
    info.own_bytes = process->space->own_bytes();
  }
  const Usage usage = process_usage(*process);
  info.user_time = usage.user;
  info.system_time = usage.system;
  info.started = process->started;
  const SessionTerminal* const terminal = process_terminal(*process);
  info.terminal = terminal ? terminal->number() : 0;
  for (const Thread& thread : process->threads) info.threads += thread.id() != 0;
  return info;
}

}  // namespace

Result<ProcessInfo> process_info(uint32_t pid) {
  const Guard guard(process_lock);
  return info_of(process_find(pid));
}

Result<ProcessInfo> process_info(ProcessId id) {
  const Guard guard(process_lock);
  return info_of(process_find(id));
}

Result<void> process_program(ProcessId id, ProcessProgram& program) {
  const Guard guard(process_lock);
  const Process* const process = process_find(id);
  if (!process) return Errno::ESRCH;
  const ProgramDescription& description = process->program;
  // A long path in the description is cut. In that case report process->path, which has more room.
  const bool is_cut = strlen(description.path) == sizeof(description.path) - 1;
  copy_name(program.path, sizeof(program.path), is_cut ? process->path : description.path);
  static_assert(sizeof(program.build_id) >= kMaxBuildId);
  program.build_id_size = description.build_id_size;
  memcpy(program.build_id, description.build_id, program.build_id_size);
  return {};
}

Result<ThreadInfo> process_next_thread(ProcessId id, uint32_t after) {
  const Guard guard(process_lock);
  const Process* const process = process_find(id);
  if (!process) return Errno::ESRCH;
  const Thread* next = nullptr;
  for (const Thread& thread : process->threads) {
    if (thread.id() > after && (!next || thread.id() < next->id())) next = &thread;
  }
  if (!next) return Errno::ESRCH;
  const Task& task = *next->task;
  const char state = process->stopped ? 'T' : task.state == TaskState::kSleeping ? 'S' : 'R';
  ThreadInfo info{.id = task.id,
                  .state = state,
                  .name = {},
                  .user_time = tsc_duration(task.user_time),
                  .system_time = tsc_duration(task.system_time)};
  memcpy(info.name, task.name, sizeof(info.name));
  return info;
}

uint32_t process_next(uint32_t pid) {
  const Guard guard(process_lock);
  do pid = numbers.next_used(pid);
  while (pid != 0 && !table[pid]);  // numbers of groups and sessions whose leader has ended
  return pid;
}

namespace {

Result<Ref<AddressSpace>> space_of(ProcessId id) {
  const Guard guard(process_lock);
  Process* const process = process_find(id);
  if (!process) return Errno::ESRCH;
  return Ref<AddressSpace>(process->space);
}

}  // namespace

uint64_t process_mapped_bytes(ProcessId id) {
  Result<Ref<AddressSpace>> space = space_of(id);
  return space && *space ? (*space)->sizes().all + kStackSize : 0;
}

Result<size_t> process_command_line(ProcessId id, char* buffer, size_t size) {
  const Ref<AddressSpace> space = TRY(space_of(id));
  if (!space) return size_t{0};
  planted_space_read(space);
  return space->read(space->arguments_start, buffer, std::min(size, space->arguments_size));
}

void proc_init() {
  process_cache.init("process");
  user_accounts_init();
  threads_init();
  signals_init();
  process_timers_init();
  address_space_init();
  sched_register_activate(activate);
  trace_register_program_provider(program_of);
  trap_register({.system_call = system_call,
                 .page_fault = page_fault,
                 .breakpoint = user_probes_breakpoint,
                 .user_exception = user_exception,
                 .before_user = signals_before_user});
}
