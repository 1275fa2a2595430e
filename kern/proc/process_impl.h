// Declarations shared by the files of the process layer. The theory is in process.cc.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string_view>

#include "abi/syscall.h"
#include "arch/x86_64/context.h"
#include "arch/x86_64/trap.h"
#include "arch/x86_64/user_registers.h"
#include "intern/context.h"
#include "kmalloc.h"
#include "lib/list.h"
#include "proc/address_space.h"
#include "proc/pending_signals_impl.h"
#include "proc/process.h"
#include "proc/thread_impl.h"
#include "proc/timers_impl.h"
#include "proc/user_account.h"
#include "sched/task.h"

inline constexpr uint32_t kInitPid = 1;

class SessionTerminal;

enum class ProcessState : uint8_t { kAlive, kExiting, kZombie };

// The ELF file that a process runs, for the tracer. For a script, the ELF file is the interpreter.
struct ProgramDescription {
  char path[70] = {};  // a longer path is cut
  uint8_t build_id_size = 0;
  uint8_t build_id[kMaxBuildId] = {};
};

// Resources that a process has used: getrusage.
struct Usage {
  Nanoseconds user, system;   // CPU time
  uint64_t max_resident = 0;  // bytes; add() takes the maximum
  uint64_t minor_faults = 0, major_faults = 0;
  uint64_t voluntary_switches = 0, involuntary_switches = 0;

  void add(const Usage& other);
};

struct Limits {
  abi_rlimit of[ABI_RLIMIT_COUNT];
  uint64_t soft(int resource) const { return of[resource].current; }
};
// The limits of process 1.
extern const Limits kFirstLimits;

struct Process {
  uint32_t pid = 0;
  uint32_t generation = 0;  // how often PIDs had wrapped when the process got its PID

  ProcessId id() const { return {pid, generation}; }

  // Changed only while the process has one thread: before the process first runs, in exec, and when
  // the process ends.
  FdTable* fds = nullptr;
  Ref<Namespace> ns;
  ProgramDescription program;  // changed with interrupts off
  uint64_t max_resident = 0;   // bytes; peak of the spaces that the process has left
  Ref<AddressSpace> space;     // changes also need process_lock

  // Changed by the process's own threads.
  std::atomic<uint32_t> umask{022};
  Limits limits = kFirstLimits;  // read and written without a lock, word by word
  Mutex timers_mutex{LockRank::kProcessTimers};
  ProcessTimers timers;
  Mutex memory_mutex{LockRank::kProcessMemory};  // see MemoryOrder

  // While the process runs, changed only with paths_lock held. A change of `who` also needs
  // process_lock.
  mutable Spinlock paths_lock{LockRank::kProcessPaths};
  Ref<Chan> cwd;
  Credentials who;
  AccountRef account;  // of the real user

  // Under process_lock.
  List<Thread, &Thread::link> threads;
  uint32_t thread_count = 0;   // 0: a zombie
  bool ending = false;         // all threads must end; exit_status has the status
  Thread* survivor = nullptr;  // if set, all threads but this one must end
  WaitQueue thread_left;       // the survivor waits here
  Usage ended_usage;           // usage of threads that have ended
  Charge charge;               // of the process itself
  Charge last_thread_charge;   // of the last thread, in a zombie
  bool secure = false;         // the program has rights that its real user may lack
  ProcessState state = ProcessState::kAlive;
  char name[32] = {};
  char path[256] = {};
  Nanoseconds started;
  Usage child_usage;  // usage of children that were waited for
  int nice = 0;       // -20..19
  // The terminal of the session that the process leads; no reference is held.
  SessionTerminal* terminal = nullptr;
  bool left_terminal = false;  // the process has given up its session's terminal

  // Tree, groups, sessions. Under process_lock.
  Process* parent = nullptr;
  ListNode sibling_link;
  ListNode all_link;
  List<Process, &Process::sibling_link> children;
  uint32_t group = 0, session = 0;
  // Children that threads of the process are forking: from process_begin_fork to process_insert.
  ListNode forked_link;
  List<Process, &Process::forked_link> forked;
  int exit_status = 0;  // as wait4 gives it
  WaitQueue child_wait;

  // Signals. Under process_lock.
  PendingSignals signals;  // signals for any of the threads
  // Signals that surely no thread blocks or waits for; maybe not all of them (signal.cc).
  uint64_t unkept = 0;
  std::array<abi_sigaction, ABI_SIGNAL_COUNT> actions{};
  bool stopped = false;         // all threads must wait for SIGCONT
  uint32_t halted_threads = 0;  // threads that wait for SIGCONT
  bool stop_told = false;       // the parent knows that all threads wait
  bool stop_reported = false;
  bool continued = false;  // a SIGCONT that wait has not reported yet
  int stop_signal = 0;
  WaitQueue stop_wait;

  // Returns a copy of the current credentials.
  Credentials credentials() const;
  // Returns the context for resolving the process's paths.
  PathContext path_context() const;
};

// Guards the table, the tree, groups, states and signals of all processes. Held for a few stores or
// one pass over processes.
extern Spinlock process_lock;

// Finds a process by PID, zombies included; nullptr if there is none.
Process* process_find(uint32_t pid) REQUIRES(process_lock);
Process* process_find(ProcessId id) REQUIRES(process_lock);
using AllProcesses = List<Process, &Process::all_link>;
extern AllProcesses all_processes GUARDED_BY(process_lock);

// Creates a process that is not in the table yet. process_discard frees such a process and its
// parts.
Result<Process*> process_create();
void process_discard(Process* process);
// Called when a thread begins to fork `child`, which is new. From now on, a signal to the group of
// the thread's process also becomes pending for the child. EINTR if a signal is pending for the
// thread: the parent takes this signal first, the fork is restarted, and the child does not get it.
Result<void> process_begin_fork(Thread& thread, Process& child);
// Gives the process, which has one thread, a PID and a position in the tree. Its pending signals
// are those since process_begin_fork. `parent` is nullptr for process 1. EAGAIN if no PID is free.
Result<void> process_insert(Process& process, Process* parent);
// Moves a process to another group and session.
void process_move(Process& process, uint32_t group, uint32_t session) REQUIRES(process_lock);
// Removes a zombie from table and tree.
void process_remove(Process& process) REQUIRES(process_lock);
// Frees the structure of a process, after process_remove.
void process_free(Process* process);
// Releases the parts of a process that ends: files, namespace, memory. May sleep.
void process_release_parts(Process& process);
// Sets the process's path to `path`. The last part of `path` becomes the name of the process and of
// its tasks, with `?` for each unprintable character: many files have names in their lines.
void process_set_path(Process& process, std::string_view path) REQUIRES(process_lock);

// Returns the current process. Called only by a task of a process.
inline Process& self() {
  return *current_task()->process;
}

// Ends the current process: makes its other threads end, and ends the current thread. `status` has
// the format of wait4.
[[noreturn]] void process_exit(int status);
// Ends the current process. Called by its last thread. On return the thread's task no longer
// belongs to the process, and the process may have been freed.
void process_end(Process& process);
inline int exited_status(int code) {
  return (code & 0xff) << 8;
}

// Returns the resources that a process has used so far.
Usage process_usage(const Process& process) REQUIRES(process_lock);

// Turns an exception in user mode into a signal to the current thread. For a page fault, `address`
// is the address that was accessed.
void user_exception(TrapFrame& frame, uint8_t vector, uint64_t address);

// --- exec.cc

// The strings for a program's start: arguments, then environment, each with its NUL.
class Arguments {
 public:
  Arguments() = default;
  ~Arguments() { kfree(data_); }
  Arguments(const Arguments&) = delete;
  Arguments& operator=(const Arguments&) = delete;

  // Appends a string. E2BIG, ENOMEM.
  Result<void> add(std::string_view text);
  // Adds a nullptr-terminated array of strings in user memory; address 0 means an empty array.
  // Returns the number of strings. EFAULT, E2BIG, ENOMEM.
  Result<uint32_t> add_from_user(uint64_t array);
  // Replaces the first string with `texts`.
  Result<void> replace_first(const std::string_view* texts, size_t count);

  uint32_t arguments = 0, environment = 0;  // numbers of strings
  const char* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  Result<void> reserve(size_t more);

  char* data_ = nullptr;
  size_t size_ = 0, capacity_ = 0;
  uint32_t count_ = 0;
  Charge charge_;
};

// A program in its own address space, ready to start.
struct LoadedProgram {
  Ref<Chan> file;  // the requested program or script
  Ref<AddressSpace> space;
  TrapFrame frame;
  ProgramDescription description;
  Credentials who;      // to run with; set-user-id and set-group-id bits change the effective ids
  bool secure = false;  // effective and real ids differ
};
// Loads the program (or the interpreter of the script) at `path`, and describes it in `program`,
// which is too large for a kernel stack (kmalloc.h). Errors of path_walk() and of the
// device; ENOEXEC, E2BIG, ENOMEM; EACCES if a file may not be executed; ETXTBSY if it is open for
// writing; ELOOP also if a chain of more than four scripts leads to the program.
Result<void> program_load(const PathContext& context, std::string_view path, Arguments& arguments,
                          LoadedProgram& program);

// --- signal.cc

// Makes a signal pending for the process, unless the process is ending or no thread would notice
// the signal. A signal that is pending already keeps its info.
void signal_post(Process& process, int signal, const SignalInfo& info = {}) REQUIRES(process_lock);
// Does what signal_post() does, for a signal that is sent to each member of the process's group.
// Also makes the signal pending for the children that the process is forking.
void signal_post_to_member(Process& process, int signal, const SignalInfo& info = {})
    REQUIRES(process_lock);
// Makes a signal with a value pending: puts `queued` into the process's queue. `queued` must not be
// in a queue yet. False, and nothing is queued, if the process is ending or no thread would notice
// the signal.
bool signal_post_queued(Process& process, QueuedSignal& queued) REQUIRES(process_lock);
// Sends a signal to one thread.
void signal_post_thread(Thread& thread, int signal, const SignalInfo& info = {})
    REQUIRES(process_lock);
// Implements sigqueue: sends `signal` with `value`. Only real-time signals are queued. Any other
// signal that is pending already keeps its old value. ESRCH, EPERM, EAGAIN when too many signals
// are queued, ENOMEM.
Result<void> signal_queue(Process& sender, int32_t pid, int signal, uint64_t value);
// Sends the current thread a signal that the thread itself caused. The signal cannot be blocked or
// ignored.
void signal_force(Thread& thread, int signal, const SignalInfo& info = {});
// True if `who` may send signals to the process (POSIX, kill): root, and users whose real or
// effective id is the real or saved id of the process.
bool signal_permitted(const Process& process, const Credentials& who) REQUIRES(process_lock);
// True if the process ends when an exception of the thread causes `signal`: the thread blocks the
// signal, or no handler is set.
bool signal_is_fatal(const Thread& thread, int signal) REQUIRES(process_lock);
// Tells the parent that the child's state has changed. `status` is the status that wait4 returns.
void signal_parent(Process& child, int status) REQUIRES(process_lock);
// Returns the SignalInfo of SIGCHLD for a child with this wait4 status: ABI_CLD_*, and the exit
// code or the signal.
SignalInfo child_info(const Process& child, int status) REQUIRES(process_lock);
void signals_reset_for_exec(Process& process) REQUIRES(process_lock);
// Forgets the pending signals in `mask`, of the process and of each of its threads. QueuedSignals
// that the caller must free are moved to `dropped`.
void signal_discard(Process& process, uint64_t mask, SignalQueue& dropped) REQUIRES(process_lock);
// True if the signal would have no effect on the process.
bool signal_is_ignored(const Process& process, int signal) REQUIRES(process_lock);
// Takes a signal of `mask` that is pending for the thread or its process.
TakenSignal signal_take(Thread& thread, uint64_t mask, SignalQueue& dropped) REQUIRES(process_lock);
// Returns the signals pending for the thread: its own and those of its process.
uint64_t signals_pending(const Thread& thread) REQUIRES(process_lock);
// Makes `mask` the blocked signals of the current thread.
void signal_set_mask(Thread& thread, uint64_t mask) REQUIRES(process_lock);
// Called when the thread has left its process. Interrupts other threads, so that they take the
// process's signals that this thread could have taken. Tells the parent that the process has
// stopped if this thread was the last one that had not halted.
void signals_thread_left(Thread& thread) REQUIRES(process_lock);
// True if the thread must handle signals before it is in user mode again.
bool signal_deliverable(const Thread& thread) REQUIRES(process_lock);
// True if the process is ending, or SIGKILL is pending.
bool signal_kills(const Process& process) REQUIRES(process_lock);
// True if the thread will end, alone or with its process, before it returns to user mode.
bool signal_ends(const Thread& thread) REQUIRES(process_lock);
// Handles signals. Called before each return to user mode.
void signals_before_user(TrapFrame& frame);
void signals_init();

// --- signal_frame.cc

inline constexpr uint64_t kUnblockableSignals = uint64_t{1} << ABI_SIGKILL | uint64_t{1}
                                                                                 << ABI_SIGSTOP;

// Returns the maximum size of a handler's frame on the user stack, in bytes.
uint64_t signal_frame_size();
// True if a stack pointer is on the thread's signal stack.
bool on_signal_stack(const Thread& thread, uint64_t stack_pointer);
// Puts a frame on the user stack and lets the thread continue in the handler. `mask` is restored
// when the handler returns. EFAULT.
Result<void> enter_handler(Thread& thread, TrapFrame& frame, const abi_siginfo& info,
                           const abi_sigaction& action, uint64_t mask);
// Restores the context of a handler's frame. EFAULT.
Result<void> signal_return(Thread& thread, TrapFrame& frame);

// --- job_control.cc

// Returns the terminal of the process's session; nullptr if the session has no terminal, or if the
// process has given up the terminal.
SessionTerminal* process_terminal(const Process& process) REQUIRES(process_lock);
// True if the process's group is orphaned: no member has a parent in another group of the session.
// Only such a parent could continue a member that has stopped.
bool job_is_orphaned(const Process& member) REQUIRES(process_lock);
// Called when `member` has lost a parent in another group of the session. If the group of `member`
// is now orphaned and any process of the group is stopped, all processes of the group get SIGHUP
// and SIGCONT (POSIX, _exit).
void job_parent_left(const Process& member) REQUIRES(process_lock);
// Called when a process ends. If `leader` leads a session that has a terminal, takes the terminal
// from the session and sends SIGHUP and SIGCONT to the foreground group. The caller hangs up the
// returned terminal after it has released process_lock.
Ref<SessionTerminal> job_leader_ended(Process& leader) REQUIRES(process_lock);
