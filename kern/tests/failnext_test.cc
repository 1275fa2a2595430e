// failnext of #debug on the live system: an order goes with its task.
#ifdef CONFIG_DEBUG_DEVICE

#include "core/ktest.h"
#include "drivers/dev/debug_failnext.h"
#include "slab.h"
#include "tests/team.h"

namespace {

int fails_none(kmem_fault_site, const void*, size_t, int) {
  return 0;
}

// Whether nobody makes allocations fail.
bool nobody_asks() {
  if (!kmem_faults_begin(fails_none)) return false;
  kmem_faults_end();
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

#endif  // CONFIG_DEBUG_DEVICE
