// What the files of the process layer share. The theory is in process.cc.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string_view>

#include "abi/syscall.h"
#include "arch/x86_64/context.h"
#include "arch/x86_64/trap.h"
#include "arch/x86_64/user_registers.h"
#include "kmalloc.h"
#include "lib/list.h"
#include "proc/address_space.h"
#include "proc/pending_signals.h"
#include "proc/process.h"
#include "proc/thread.h"
#include "proc/timers.h"
#include "sched/task.h"
#include "store/context.h"

inline constexpr uint32_t kInitPid = 1;

class SessionTerminal;

enum class ProcessState : uint8_t { kAlive, kExiting, kZombie };

// The ELF file that a process runs (of a script, its interpreter's), for the tracer.
struct ProgramDescription {
  char path[70] = {};  // a longer one is cut
  uint8_t build_id_size = 0;
  uint8_t build_id[kMaxBuildId] = {};
};

// What a process has used: getrusage.
struct Usage {
  uint64_t user_ticks = 0, system_ticks = 0;
  uint64_t max_resident = 0;  // bytes; of several the largest
  uint64_t minor_faults = 0, major_faults = 0;
  uint64_t voluntary_switches = 0, involuntary_switches = 0;

  void add(const Usage& other);
};

struct Limits {
  abi_rlimit of[ABI_RLIMIT_COUNT];
  uint64_t soft(int resource) const { return of[resource].current; }
};
// What process 1 begins with.
extern const Limits kFirstLimits;

struct Process {
  uint32_t pid = 0;
  uint32_t generation = 0;  // how often PIDs had come round when it got its own

  ProcessId id() const { return {pid, generation}; }

  // Changed only while the process has one thread: before it runs, by exec, at its end.
  FdTable* fds = nullptr;
  Ref<Namespace> ns;
  ProgramDescription program;  // changed with interrupts off
  uint64_t max_resident = 0;   // bytes, in earlier programs
  Ref<AddressSpace> space;     // changed under process_lock, too

  // What the process's own threads change.
  std::atomic<uint32_t> umask{022};
  Limits limits = kFirstLimits;  // word by word
  Mutex timers_mutex{LockRank::kProcessTimers};
  ProcessTimers timers;

  // Changed with paths_lock held; by process_lock's rule for `who`, too.
  mutable Spinlock paths_lock{LockRank::kProcessPaths};
  Ref<Chan> cwd;
  Credentials who;

  // Under process_lock.
  List<Thread, &Thread::link> threads;
  uint32_t thread_count = 0;   // 0: a zombie
  bool ending = false;         // all threads are to end; exit_status says with what
  Thread* survivor = nullptr;  // all others are to end
  WaitQueue thread_left;       // for the survivor
  Usage ended_usage;           // of threads that have ended
  bool secure = false;         // its program has rights that its real user may not have
  ProcessState state = ProcessState::kAlive;
  char name[32] = {};
  char path[256] = {};
  uint64_t start_ticks = 0;
  Usage child_usage;                    // of those that it has waited for
  int nice = 0;                         // -20..19
  SessionTerminal* terminal = nullptr;  // of the session that it leads; no reference
  bool left_terminal = false;           // has given up its session's, until it makes a session

  // Tree, groups, sessions. Under process_lock.
  Process* parent = nullptr;
  ListNode sibling_link;
  ListNode all_link;
  List<Process, &Process::sibling_link> children;
  uint32_t group = 0, session = 0;
  int exit_status = 0;  // as wait4 gives it
  WaitQueue child_wait;

  // Signals. Under process_lock.
  PendingSignals signals;      // for whichever thread takes them first
  uint64_t group_signals = 0;  // what came to its group since its last fork began
  std::array<abi_sigaction, ABI_SIGNAL_COUNT> actions{};
  bool stopped = false;         // all threads are to wait until it goes on
  uint32_t halted_threads = 0;  // those that do
  bool stop_told = false;       // the parent knows that all do
  bool stop_reported = false;
  bool continued = false;  // and not yet reported
  int stop_signal = 0;
  WaitQueue stop_wait;

  // Its credentials as they are now.
  Credentials credentials() const;
  // What its paths are resolved against.
  PathContext path_context() const;
};

// Guards the table, the tree, groups, states and signals of all processes. Held for a few stores or
// one pass over processes.
extern Spinlock process_lock;

// By PID; nullptr if there is none. Zombies included.
Process* process_find(uint32_t pid) REQUIRES(process_lock);
Process* process_find(ProcessId id) REQUIRES(process_lock);
using AllProcesses = List<Process, &Process::all_link>;
extern AllProcesses all_processes GUARDED_BY(process_lock);

// A process that is in no table yet; what has been put into it is let go when it is discarded.
Result<Process*> process_create();
void process_discard(Process* process);
// Gives the process, which has one thread, a PID, its place in the tree, and what came to the
// parent's group since its fork began; `parent` is nullptr for process 1. EAGAIN when there are no
// PIDs.
Result<void> process_insert(Process& process, Process* parent);
// Takes a zombie out of table and tree.
void process_remove(Process& process) REQUIRES(process_lock);
// Its structure, after process_remove.
void process_free(Process* process);
// The parts that a process gives back when it ends: files, namespace, memory. May sleep.
void process_release_parts(Process& process);
// Names it after the program at `path`.
void process_set_path(Process& process, std::string_view path) REQUIRES(process_lock);

// The current process, from its own task.
inline Process& self() {
  return *current_task()->process;
}

// Ends the current process with a status as wait4 gives it: tells its other threads to end, and
// ends the current one.
[[noreturn]] void process_exit(int status);
// The end of the current process, by its last thread, which is its thread no more afterwards.
void process_end(Process& process);
inline int exited_status(int code) {
  return (code & 0xff) << 8;
}

// What a process has used so far.
Usage process_usage(const Process& process) REQUIRES(process_lock);

// Turns an exception of the current process, in user mode, into a signal. `address` is the page
// fault's.
void user_exception(TrapFrame& frame, uint8_t vector, uint64_t address);

// --- exec.cc

// The strings that a program starts with: arguments, then environment, each with its NUL.
class Arguments {
 public:
  Arguments() = default;
  ~Arguments() { kfree(data_); }
  Arguments(const Arguments&) = delete;
  Arguments& operator=(const Arguments&) = delete;

  // E2BIG, ENOMEM.
  Result<void> add(std::string_view text);
  // A nullptr-terminated array of strings in user memory; 0 is an empty one. EFAULT, E2BIG, ENOMEM.
  Result<uint32_t> add_from_user(uint64_t array);
  // Puts `texts` in the place of the first string.
  Result<void> replace_first(const std::string_view* texts, size_t count);

  uint32_t arguments = 0, environment = 0;  // how many
  const char* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  Result<void> reserve(size_t more);

  char* data_ = nullptr;
  size_t size_ = 0, capacity_ = 0;
  uint32_t count_ = 0;
};

// A program in memory of its own, ready to start.
struct LoadedProgram {
  Ref<Chan> file;  // the program or script that was asked for
  Ref<AddressSpace> space;
  TrapFrame frame;
  ProgramDescription description;
  Credentials who;      // that it runs as: a set-user-id bit has changed the effective user
  bool secure = false;  // they are not the real ones
};
// Loads the program (or the interpreter of the script) at `path`. ENOENT, EACCES, ENOEXEC, E2BIG,
// ENOMEM and what reading gives.
Result<LoadedProgram> program_load(const PathContext& context, std::string_view path,
                                   Arguments& arguments);

// --- signal.cc

// Makes a signal pending. `process` is not a zombie's. One that is pending already keeps its info.
void signal_post(Process& process, int signal, const SignalInfo& info = {}) REQUIRES(process_lock);
// The same, as to each member of its group.
void signal_post_to_member(Process& process, int signal, const SignalInfo& info = {})
    REQUIRES(process_lock);
// The same with a value: `queued`, which is in no queue, is in that of the process afterwards,
// unless the signal is ignored; whether it is.
bool signal_post_queued(Process& process, QueuedSignal& queued) REQUIRES(process_lock);
// To one thread.
void signal_post_thread(Thread& thread, int signal, const SignalInfo& info = {})
    REQUIRES(process_lock);
// For sigqueue: a node for signals in real time, the process's info for the others. ESRCH, EPERM,
// EAGAIN when too many wait, ENOMEM.
Result<void> signal_queue(Process& sender, int32_t pid, int signal, uint64_t value);
// To the current thread, for what it did itself: cannot be blocked or ignored.
void signal_force(Thread& thread, int signal, const SignalInfo& info = {});
// Whether somebody may send it signals (POSIX, kill): root, and whose real or effective user is its
// real or saved one.
bool signal_permitted(const Process& process, const Credentials& who) REQUIRES(process_lock);
// Whether a fault of the thread that gives this signal ends the process.
bool signal_is_fatal(const Thread& thread, int signal) REQUIRES(process_lock);
// Tells the parent what has become of a child. `status` as wait4 gives it.
void signal_parent(Process& child, int status) REQUIRES(process_lock);
// What a parent learns of a child with this status: ABI_CLD_* and exit code or signal.
SignalInfo child_info(const Process& child, int status) REQUIRES(process_lock);
void signals_reset_for_exec(Process& process) REQUIRES(process_lock);
// Forgets what is pending of the signals in `mask`, of the process and of its threads; what is to
// be freed comes into `dropped`.
void signal_discard(Process& process, uint64_t mask, SignalQueue& dropped) REQUIRES(process_lock);
// Whether the process would not notice the signal.
bool signal_is_ignored(const Process& process, int signal) REQUIRES(process_lock);
// A signal of `mask` that is pending for the thread or its process, taken off.
TakenSignal signal_take(Thread& thread, uint64_t mask, SignalQueue& dropped) REQUIRES(process_lock);
// What waits for the thread: its own signals, and those of its process.
uint64_t signals_pending(const Thread& thread) REQUIRES(process_lock);
// Blocks what is in `mask` and nothing else, in the current thread.
void signal_set_mask(Thread& thread, uint64_t mask) REQUIRES(process_lock);
// The thread, which has left its process, takes no signals any more: others take what waits for the
// process.
void signals_thread_left(Thread& thread) REQUIRES(process_lock);
// Whether the thread has to look at its signals before it is in user mode again.
bool signal_deliverable(const Thread& thread) REQUIRES(process_lock);
// Whether the process ends, or SIGKILL is pending.
bool signal_kills(const Process& process) REQUIRES(process_lock);
// Whether the thread, or all of its process, ends before the thread is in user mode again.
bool signal_ends(const Thread& thread) REQUIRES(process_lock);
// Before each return to user mode.
void signals_before_user(TrapFrame& frame);
void signals_init();

// --- signal_frame.cc

inline constexpr uint64_t kUnblockableSignals = uint64_t{1} << ABI_SIGKILL | uint64_t{1}
                                                                                 << ABI_SIGSTOP;

// Bytes of user stack that the frame of a handler takes at most.
uint64_t signal_frame_size();
// Whether a stack pointer is on the thread's signal stack.
bool on_signal_stack(const Thread& thread, uint64_t stack_pointer);
// Puts a frame on the user stack and lets the thread continue in the handler; `mask` is the one
// that comes back when that returns. EFAULT.
Result<void> enter_handler(Thread& thread, TrapFrame& frame, const abi_siginfo& info,
                           const abi_sigaction& action, uint64_t mask);
// Puts back what a handler's frame kept. EFAULT.
Result<void> signal_return(Thread& thread, TrapFrame& frame);

// --- job_control.cc

// The terminal of the process's session, unless it has left that; nullptr.
SessionTerminal* process_terminal(const Process& process) REQUIRES(process_lock);
// Whether nobody could make the process's group go on if it stopped: no member has a parent in
// another group of the session.
bool job_is_orphaned(const Process& member) REQUIRES(process_lock);
// The member has lost a parent in another group of the session. If that makes the group orphaned
// and one of it is stopped, all get SIGHUP and SIGCONT (POSIX, _exit).
void job_parent_left(const Process& member) REQUIRES(process_lock);
// A process ends. If it has a terminal for its session, the foreground gets SIGHUP; the caller
// hangs the terminal up when it has dropped the lock.
Ref<SessionTerminal> job_leader_ended(Process& leader) REQUIRES(process_lock);
