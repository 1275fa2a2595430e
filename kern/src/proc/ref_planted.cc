#include "proc/ref_planted.h"

#ifdef CONFIG_PLANTED_BUGS
#include "arch/x86_64/time.h"
#include "core/planted.h"
#include "kmalloc.h"
#include "sched/timer.h"

namespace {

constexpr Nanoseconds kDay{86'400'000'000'000};

struct Visited {
  ListNode link;
  Ref<Chan> directory;
};
struct Reminder {
  Timer timer;
  Ref<Chan> directory;
};

constinit Spinlock lock{LockRank::kDevice};
constinit List<Visited, &Visited::link> visited GUARDED_BY(lock);

template <typename T>
T* make() {
  void* const memory = kmalloc(sizeof(T), KM_SLEEP | KM_ZERO);
  return memory ? new (memory) T() : nullptr;
}

}  // namespace

void planted_directory_changed(const Process& process) {
  if (planted(Planted::kRefList)) {
    if (Visited* const entry = make<Visited>()) {
      entry->directory = process.cwd;
      const Guard guard(lock);
      visited.push_back(*entry);
    }
  }
  if (planted(Planted::kRefTimer)) {
    if (auto* const reminder = make<Reminder>()) {
      reminder->directory = process.cwd;
      reminder->timer.callback = [](void* argument) { kfree(argument); };
      reminder->timer.argument = reminder;
      timer_arm(reminder->timer, monotonic_now() + kDay);
    }
  }
  if (planted(Planted::kRefImmortal)) static_cast<void>(Ref<Namespace>(process.ns).release());
}
#endif
