// Tests fault injection by the command `failnext` of the device #debug, on the live system. An
// order (a request for failures) applies only to the task that made it, and ends with this task. A
// sweep (debug_fail_in_process) gives numbers to processes: the calling process gets number 1, and
// each fork gives the next number to the child. The order of a sweep applies to the process with
// one chosen number.
#ifdef CONFIG_DEBUG_DEVICE

#include "core/ktest.h"
#include "drivers/dev/debug_failnext.h"
#include "slab.h"
#include "tests/team.h"

namespace {

int fails_none(kmem_inject_site, const void*, size_t, int) {
  return 0;
}

// True if no order is active.
bool nobody_asks() {
  if (!kmem_inject_begin(fails_none)) return false;
  kmem_inject_end();
  return true;
}

constexpr uint64_t kNever = 1'000'000'000;

}  // namespace

KTEST(failnext_ends_with_its_task) {
  EXPECT(nobody_asks());
  Team team(
      [](void*) {
        EXPECT(debug_fail_next(1, kNever).ok());
        EXPECT(!nobody_asks());
      },
      nullptr);
  team.add();
  team.join();
  task_drain_dead();
  EXPECT(nobody_asks());
}

KTEST(failnext_goes_on_while_another_task_has_an_order) {
  EXPECT(debug_fail_next(1, kNever).ok());
  Team team([](void*) { EXPECT(debug_fail_next(1, kNever).ok()); }, nullptr);
  team.add();
  team.join();
  task_drain_dead();
  EXPECT(!nobody_asks());
  EXPECT(debug_fail_next(0, 0).ok());
  EXPECT(nobody_asks());
}

namespace {

void never_runs(void*) {}

// Creates a task that inherits from the current task as a child does in fork.
Task* forked() {
  Result<Task*> child = task_create("forked", never_runs, nullptr);
  EXPECT(child.ok());
  task_forked(*current_task(), **child);
  return *child;
}

}  // namespace

KTEST(failnext_of_a_sweep_is_inherited_by_number) {
  EXPECT(debug_fail_in_process(7, 5, 3).ok());
  const FaultInjection mine = current_task()->fault_injection;
  EXPECT(mine.process == 1 && mine.fail == 0);
  Task* const second = forked();
  Task* const third = forked();
  EXPECT(second->fault_injection.process == 2 && second->fault_injection.fail == 0);
  EXPECT(third->fault_injection.process == 3);
  EXPECT(third->fault_injection.fail == 7 && third->fault_injection.skip == 5);
  // While a process of the sweep lives, another sweep is refused, even after the first process has
  // left the sweep.
  EXPECT(debug_fail_next(0, 0).ok());
  EXPECT(current_task()->fault_injection.process == 0);
  EXPECT(!nobody_asks());
  EXPECT(debug_fail_in_process(1, 0, 1).error() == Errno::EBUSY);
  Task* const other = forked();
  EXPECT(other->fault_injection.process == 0);
  for (Task* const task : {second, third, other}) task_discard(task);
  EXPECT(debug_fail_in_process(1, kNever, 1).ok());
  EXPECT(debug_fail_next(0, 0).ok());
  EXPECT(nobody_asks());
}

#endif  // CONFIG_DEBUG_DEVICE
