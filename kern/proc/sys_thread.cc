// System calls on threads.
#include "core/errstr.h"
#include "lib/string.h"
#include "proc/futex_impl.h"
#include "proc/system_call_impl.h"

namespace {

constexpr uint32_t kMaxThreads = 1024;  // threads of a process

Thread* find_thread(Process& process, uint32_t id) REQUIRES(process_lock) {
  for (Thread& thread : process.threads) {
    if (thread.id() == id) return &thread;
  }
  return nullptr;
}

}  // namespace

Result<int64_t> sys_thread_create(const SystemCall& call) {
  abi_thread how;
  TRY(get_user(call.arguments[0], how));
  if (how.entry >= kUserEnd || how.stack > kUserEnd || how.tls >= kUserEnd) return Errno::EINVAL;
  if (call.process.thread_count >= kMaxThreads)
    return fail(Errno::EAGAIN, "a process has at most %u threads", kMaxThreads);
  TrapFrame frame = user_frame(how.entry, how.stack);
  frame.rdi = how.argument;
  Thread& thread = *TRY(thread_create(call.process, frame));
  const uint32_t id = thread.id();
  const Result<void> told = how.id == 0 ? Result<void>() : put_user(how.id, id);
  if (!told) {
    thread_discard(&thread);
    return told.error();
  }
  thread.id_address = how.id;
  thread.user_registers.fs_base = how.tls;
  thread.task->thread_in_context = id;
  thread.task->extra_slice = call.thread.task->extra_slice;
  {
    const Guard guard(process_lock);
    thread.blocked = call.thread.blocked & ~how.unblocked;
    memcpy(thread.task->name, call.process.name, sizeof(call.process.name));
    // Signals may have reached the process before the new thread's mask was set, so check for
    // pending signals now.
    thread.task->interrupted = signal_deliverable(thread);
  }
  task_forked(*call.thread.task, *thread.task);
  thread_start(thread);
  return id;
}

Result<int64_t> sys_thread_exit(const SystemCall&) {
  thread_exit();
}

Result<int64_t> sys_gettid(const SystemCall& call) {
  return call.thread.id();
}

Result<int64_t> sys_thread_kill(const SystemCall& call) {
  const int signal = call.integer(1);
  if (signal < 0 || signal >= ABI_SIGNAL_COUNT) return Errno::EINVAL;
  const Guard guard(process_lock);
  Thread* const thread = find_thread(call.process, call.word(0));
  if (!thread) return Errno::ESRCH;
  if (signal != 0)
    signal_post_thread(*thread, signal,
                       {.code = ABI_SI_USER, .pid = call.process.pid, .uid = call.process.who.uid});
  return 0;
}

Result<int64_t> sys_futex(const SystemCall& call) {
  AddressSpace& space = *call.process.space;
  const int operation = call.integer(0), clock = call.integer(3);
  const uint64_t address = call.arguments[1];
  const uint32_t value = call.word(2);
  const bool is_shared = operation == ABI_FUTEX_WAIT_SHARED || operation == ABI_FUTEX_WAKE_SHARED;
  const FutexScope scope = is_shared ? FutexScope::kMemory : FutexScope::kProcess;
  switch (operation) {
    case ABI_FUTEX_WAKE:
    case ABI_FUTEX_WAKE_SHARED:
      return TRY(futex_wake(space, address, scope, value));
    case ABI_FUTEX_WAIT:
    case ABI_FUTEX_WAIT_SHARED: {
      Nanoseconds deadline = kForever;
      if (call.arguments[4]) {
        if (clock != ABI_CLOCK_REALTIME && clock != ABI_CLOCK_MONOTONIC) return Errno::EINVAL;
        deadline = deadline_at(clock, TRY(get_duration(call.arguments[4])));
      }
      const Result<void> result = futex_wait(space, address, scope, value, deadline);
      // A thread may wait in a loop with a deadline that has passed, and hold a mutex all the time
      // except during this call. On a single CPU, another thread can get the mutex only if it runs
      // now.
      if (!result && result.error() == Errno::ETIMEDOUT) task_yield();
      TRY(result);
      return 0;
    }
    default:
      return Errno::EINVAL;
  }
}
