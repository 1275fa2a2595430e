// failnext: the allocations of one process fail. The order is its task's, so that it ends with it
// and nobody else is hit. While any task has one, the allocator asks before each allocation.
#ifdef CONFIG_DEBUG_DEVICE

#include "drivers/dev/debug_failnext.h"

#include "arch/x86_64/trap.h"
#include "core/cpu.h"
#include "core/errstr.h"
#include "sched/task.h"
#include "slab.h"

namespace {

constinit Mutex failnext_mutex{LockRank::kFailNext};
constinit bool asking GUARDED_BY(failnext_mutex) = false;

// What the allocator asks. An exception in the kernel is the doing of the task, an interrupt is
// not.
int fails_for_task(kmem_fault_site site, const void* source, size_t, int) {
  const Cpu& cpu = this_cpu();
  if (!cpu.current || (cpu.interrupt_depth > 0 && cpu.interrupt_vector >= kVectorIrqBase)) return 0;
  FaultOrder& order = task_on(cpu)->fault_order;
  if (order.fail == 0 || site == KMEM_FAULT_TRACE) return 0;
  if (site == KMEM_FAULT_CACHE &&
      (kmem_cache_flags(static_cast<const kmem_cache*>(source)) & KMC_NOTRACE))
    return 0;
  if (order.skip > 0) {
    order.skip--;
    return 0;
  }
  order.fail--;
  order.failed++;
  return 1;
}

// The allocator asks as long as any task has an order.
Result<void> ask_if_wanted() REQUIRES(failnext_mutex) {
  bool wanted = false;
  task_for_each(
      [](Task& task, void* any) { *static_cast<bool*>(any) |= task.fault_order.fail > 0; },
      &wanted);
  if (asking && !wanted) {
    kmem_faults_end();
  } else if (!asking && wanted && !kmem_faults_begin(fails_for_task)) {
    return fail(Errno::EBUSY, "something else makes allocations fail");
  }
  asking = wanted;
  return {};
}

void on_exit(Task& task) {
  if (task.fault_order.fail == 0) return;
  const MutexGuard guard(failnext_mutex);
  task.fault_order = {};
  static_cast<void>(ask_if_wanted());  // it can only end
}

}  // namespace

Result<void> debug_fail_next(uint64_t count, uint64_t after) {
  const MutexGuard guard(failnext_mutex);
  FaultOrder& order = current_task()->fault_order;
  // The end of an order leaves the number of its failures to be read.
  order = {.skip = after, .fail = count, .failed = count == 0 ? order.failed : 0};
  Result<void> done = ask_if_wanted();
  if (!done) order = {};
  return done;
}

void debug_failnext_init() {
  task_register_exit(on_exit);
}

#endif  // CONFIG_DEBUG_DEVICE
