// failnext: makes allocations of one task fail. An injection (FaultInjection) says how many
// allocations of its task succeed first, and how many then fail. It is stored in the task, so it
// ends with the task and affects no other task. While any task has an injection or belongs to a
// sweep, the allocator calls fails_for_task() before each allocation.
//
// The processes of a sweep are a first process and all its descendants. The sweep makes allocations
// fail in one of them. The processes are numbered in the order of their forks; the first has number
// 1. A new thread counts as a process: its task gets a number of its own. The command that begins
// the sweep gives the injection for process number K. The injection is stored in the task of
// process K when this process is forked, or immediately if K is 1. Each process has its number in
// its own FaultInjection. Struct Sweep has what the processes share: the injection, the highest
// number and the first failure. There is one sweep at a time. While more than one process of the
// sweep lives, only two things change in struct Sweep: its atomic fields, and the fields of the
// first failure, which `failed` publishes.
#ifdef CONFIG_DEBUG_DEVICE

#include "drivers/dev/debug_failnext.h"

#include <atomic>
#include <iterator>

#include "arch/x86_64/paging.h"
#include "arch/x86_64/trap.h"
#include "arena.h"
#include "core/cpu.h"
#include "core/errstr.h"
#include "lib/format.h"
#include "lib/quoted.h"
#include "sched/task.h"
#include "slab.h"

namespace {

constinit Mutex failnext_mutex{LockRank::kFailNext};
constinit bool asking GUARDED_BY(failnext_mutex) = false;

struct Sweep {
  // The injection for the process with number `process`.
  uint32_t process;
  uint64_t skip, fail;
  std::atomic<uint32_t> processes;  // highest number of a process; 0: there has been no sweep

  // The first failure. Only the task with the injection writes these fields, except that a new
  // sweep resets `failed`.
  std::atomic<bool> failed;
  uint64_t number;  // number of the allocation, from 1 on
  uint64_t size;    // bytes requested
  char source[KMEM_CACHE_NAME_MAX];
  slab_os_place place;
};
constinit Sweep sweep{};

const char* name_of(kmem_inject_site site, const void* source) {
  if (site == KMEM_INJECT_TRACE) return "trace";
  return site == KMEM_INJECT_CACHE ? kmem_cache_name(static_cast<const kmem_cache*>(source))
                                   : arena_name(static_cast<const struct arena*>(source));
}

// Copies the name: the cache may be destroyed before the name is read.
void note_failure(kmem_inject_site site, const void* source, size_t size) {
  sweep.number = sweep.skip + 1;
  sweep.size = size;
  format(sweep.source, sizeof(sweep.source), "%s", name_of(site, source));
  slab_os_note_place(&sweep.place, __builtin_frame_address(0));
  sweep.failed.store(true, std::memory_order_release);
}

// Called by the allocator; returns 1 if the allocation shall fail. The task's injection covers
// allocations during an exception, because the task caused the exception, but no allocations in an
// interrupt.
int fails_for_task(kmem_inject_site site, const void* source, size_t size, int flags) {
  const Cpu& cpu = this_cpu();
  if (!cpu.current || (cpu.interrupt_depth > 0 && cpu.interrupt_vector >= kVectorIrqBase)) return 0;
  FaultInjection& injection = task_on(cpu)->fault_injection;
  if (injection.fail == 0) return 0;
  // In a sweep, the injection also covers the tracer's own memory if a dump or a probe session
  // allocates it (KM_SLEEP). It does not cover the allocations of the tracer's hooks, because
  // no caller would notice that such an allocation fails. Besides, hooks allocate only while a
  // trace runs, so the numbers of later allocations would depend on the trace.
  if (site == KMEM_INJECT_TRACE && (injection.process == 0 || !(flags & KM_SLEEP))) return 0;
  // Allocations from caches that cannot be traced, such as the allocator's own, do not fail.
  if (site == KMEM_INJECT_CACHE &&
      (kmem_cache_flags(static_cast<const kmem_cache*>(source)) & KMC_NOTRACE))
    return 0;
  if (injection.skip > 0) {
    injection.skip--;
    return 0;
  }
  injection.fail--;
  if (injection.failed++ == 0 && injection.process != 0) note_failure(site, source, size);
  return 1;
}

template <typename Predicate>
bool any_task(Predicate predicate) {
  struct Search {
    Predicate predicate;
    bool found;
  } search{predicate, false};
  task_for_each(
      [](Task& task, void* argument) {
        auto& of = *static_cast<Search*>(argument);
        of.found |= of.predicate(task);
      },
      &search);
  return search.found;
}

// Makes the allocator call fails_for_task() while any task has an injection or belongs to a sweep,
// whose later processes may get an injection. Otherwise ends these calls. EBUSY if the allocator
// already calls another function (kmem_inject_begin).
Result<void> ask_if_wanted() REQUIRES(failnext_mutex) {
  const bool wanted = any_task([](const Task& task) {
    return task.fault_injection.fail > 0 || task.fault_injection.process != 0;
  });
  if (asking && !wanted) {
    kmem_inject_end();
  } else if (!asking && wanted && !kmem_inject_begin(fails_for_task)) {
    return fail(Errno::EBUSY, "something else makes allocations fail");
  }
  asking = wanted;
  return {};
}

void on_exit(Task& task) {
  if (task.fault_injection.fail == 0 && task.fault_injection.process == 0) return;
  const MutexGuard guard(failnext_mutex);
  task.fault_injection = {};
  static_cast<void>(ask_if_wanted());  // may only set `asking` to false, which cannot fail
}

void on_fork(Task& parent, Task& child) {
  if (parent.fault_injection.process == 0) return;
  const uint32_t number = ++sweep.processes;
  child.fault_injection = {.process = number};
  if (number == sweep.process) {
    child.fault_injection.skip = sweep.skip;
    child.fault_injection.fail = sweep.fail;
  }
}

// The PIDs of the sweep's living processes, at most 64 of them.
struct Members {
  uint32_t pids[64];
  size_t count = 0;
};

}  // namespace

Result<void> debug_fail_next(uint64_t count, uint64_t after) {
  const MutexGuard guard(failnext_mutex);
  FaultInjection& injection = current_task()->fault_injection;
  // Ending an injection (count 0) keeps the number of failures, which can still be read.
  injection = {.skip = after, .fail = count, .failed = count == 0 ? injection.failed : 0};
  Result<void> done = ask_if_wanted();
  if (!done) injection = {};
  return done;
}

Result<void> debug_fail_in_process(uint64_t count, uint64_t after, uint32_t process) {
  const MutexGuard guard(failnext_mutex);
  Task* const task = current_task();
  if (any_task([task](const Task& other) {
        return &other != task && other.fault_injection.process != 0;
      }))
    return fail(Errno::EBUSY, "processes of another sweep are still there");
  sweep.process = process;
  sweep.skip = after;
  sweep.fail = count;
  sweep.processes = 1;
  sweep.failed = false;
  task->fault_injection = {.process = 1};
  if (process == 1) {
    task->fault_injection.skip = after;
    task->fault_injection.fail = count;
  }
  Result<void> done = ask_if_wanted();
  if (!done) task->fault_injection = {};
  return done;
}

void debug_failnext_print(Text& text) {
  const FaultInjection& injection = current_task()->fault_injection;
  if (injection.fail + injection.failed > 0)
    text.print("failnext %lu failed %lu\n", injection.fail, injection.failed);
  const MutexGuard guard(failnext_mutex);
  if (sweep.processes == 0) return;
  Members members;
  task_for_each(
      [](Task& task, void* argument) {
        auto& found = *static_cast<Members*>(argument);
        if (task.fault_injection.process != 0 && found.count < std::size(found.pids))
          found.pids[found.count++] = task.pid;
      },
      &members);
  text.print("sweep processes %u alive", sweep.processes.load());
  for (size_t i = 0; i < members.count; i++) text.print(" %u", members.pids[i]);
  text.print("\n");
  if (!sweep.failed.load(std::memory_order_acquire)) return;
  text.print("sweep failed %u %lu %s %lu %u %s\n", sweep.process, sweep.number, sweep.source,
             sweep.size, sweep.place.pid, Quoted(sweep.place.name).get());
  for (unsigned i = 0; i < sweep.place.depth; i++)
    text.print("sweep frame %lx\n", kKernelImageBase + sweep.place.frames[i]);
}

void debug_failnext_init() {
  task_register_exit(on_exit);
  task_register_fork(on_fork);
}

#endif  // CONFIG_DEBUG_DEVICE
