// Threads.
//
// A thread is a task in user mode, with registers, a signal mask and signals of its own. A thread
// passes through these states:
//
//   created    by thread_create: in the process's list of threads, so that an end or a stop of the
//              process also affects the thread; the thread's task does not run yet
//   alive      from thread_start on
//   ended      not in the process any more; the task runs to its end on the kernel's page tables
//
// No thread ends another one directly. process_exit sets Process::ending, and exec sets
// Process::survivor. Then each of these functions interrupts the other threads. An interrupted
// thread wakes up if its sleep can be interrupted, and ends itself in signals_before_user. The last
// thread ends the process (exit.cc).
//
// A thread's id is its task's id, which is not reused until 2^32 tasks have been created.
#include "proc/thread_impl.h"

#include "arch/x86_64/interrupts.h"
#include "arch/x86_64/time.h"
#include "core/user_memory.h"
#include "kmalloc.h"
#include "lib/format.h"
#include "proc/futex_impl.h"
#include "proc/process_impl.h"
#include "proc/user_probes_impl.h"

namespace {

constinit ObjectCache<Thread> thread_cache;
// Where the FpuState lies in the memory of a thread.
constexpr size_t kFpuOffset = align_up(sizeof(Thread) + sizeof(ThreadBytes), kFpuAlign);
static_assert(sizeof(Thread) % alignof(ThreadBytes) == 0);

void run_thread(void*) {
  enter_user(self_thread().bytes().start_frame);
}

// Removes the thread from the list of its process.
void leave(Thread& thread) REQUIRES(process_lock) {
  Process& process = thread.process;
  thread.link.unlink();
  process.thread_count--;
  signals_thread_left(thread);
  process.thread_left.wake_all();
}

// Clears the thread's id in user memory and wakes the waiters for the thread's end. The program has
// chosen the address, which may be invalid.
void clear_id(Thread& thread) {
  constexpr uint32_t kNobody = 0;
  const uint64_t address = std::exchange(thread.id_address, 0);
  if (address == 0 || !copy_to_user(address, &kNobody, sizeof(kNobody))) return;
  static_cast<void>(futex_wake(*thread.process.space, address, FutexScope::kProcess, UINT32_MAX));
}

}  // namespace

ThreadName::ThreadName(const Thread& thread) {
  const Task& task = *thread.task;
  if (task.thread_in_context == 0) {
    format(text, sizeof(text), "pid %u %s", task.pid, task.name);
  } else {
    format(text, sizeof(text), "pid %u thread %u %s", task.pid, task.id, task.name);
  }
}

Result<Thread*> thread_create(Process& process, const TrapFrame& frame) {
  Charge charge = TRY(charge_current(Charged::kThread));
  Thread* const thread = TRY(thread_cache.make(KM_SLEEP, process, frame));
  thread->charge = std::move(charge);
  thread->user_registers.fpu =
      reinterpret_cast<FpuState*>(reinterpret_cast<char*>(thread) + kFpuOffset);
  fpu_init(*thread->user_registers.fpu);
  Result<Task*> task = task_create(process.name, run_thread, nullptr);
  if (!task) {
    thread_cache.destroy(thread);
    return task.error();
  }
  thread->task = *task;
  thread->task->process = &process;
  thread->task->thread = thread;
  thread->task->pid = process.pid;
  thread->task->user_registers = &thread->user_registers;
  {
    const Guard guard(process_lock);
    if (!process.ending && !process.survivor) {
      process.threads.push_back(*thread);
      process.thread_count++;
      return thread;
    }
  }
  task_discard(thread->task);
  thread_cache.destroy(thread);
  return Errno::EINTR;
}

void thread_discard(Thread* thread) {
  SignalQueue dropped;
  {
    const Guard guard(process_lock);
    leave(*thread);
    thread->signals.discard(~uint64_t{0}, dropped);
  }
  signal_queue_free(dropped);
  task_discard(thread->task);
  thread_cache.destroy(thread);
}

void thread_start(Thread& thread) {
  task_start(thread.task);
}

bool thread_ends(const Thread& thread) {
  const Process& process = thread.process;
  return process.ending || (process.survivor && process.survivor != &thread);
}

void threads_interrupt(Process& process, const Thread* but) {
  for (const Thread& thread : process.threads) {
    if (&thread != but) task_interrupt(thread.task);
  }
}

Usage thread_usage(const Thread& thread) {
  const Task& task = *thread.task;
  if (&task == current_task()) task_charge();
  return {.user = tsc_duration(task.user_time),
          .system = tsc_duration(task.system_time),
          .minor_faults = thread.minor_faults,
          .major_faults = thread.major_faults,
          .voluntary_switches = task.voluntary_switches,
          .involuntary_switches = task.involuntary_switches};
}

void thread_exit() {
  Thread& thread = self_thread();
  Process& process = thread.process;
  user_probes_thread_left(thread.id());
  clear_id(thread);
  SignalQueue dropped;
  bool is_last;
  {
    const Guard guard(process_lock);
    is_last = process.thread_count == 1;
    if (!is_last) {
      task_will_exit();
      process.ended_usage.add(thread_usage(thread));
      leave(thread);
      // The process may be freed at any time from here on.
      task_leave_process();
    }
    thread.signals.discard(~uint64_t{0}, dropped);
    thread.task->interrupted = false;
  }
  signal_queue_free(dropped);
  if (is_last) process_end(process);
  thread_cache.destroy(&thread);
  task_exit();
}

Result<void> threads_end_others() {
  Thread& thread = self_thread();
  Process& process = thread.process;
  const Guard guard(process_lock);
  if (thread_ends(thread)) return Errno::EINTR;
  if (process.thread_count == 1) return {};
  process.survivor = &thread;
  threads_interrupt(process, &thread);
  process.stop_wait.wake_all();
  process.thread_left.wait_uninterruptible(
      process_lock, [&] { return process.ending || process.thread_count == 1; });
  process.survivor = nullptr;
  return process.ending ? Errno::EINTR : Result<void>();
}

void threads_init() {
  thread_cache.init("thread", kFpuOffset + fpu_state_size(), kFpuAlign);
}
