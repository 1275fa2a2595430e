#include "proc/ref_planted_impl.h"

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

constexpr size_t kMostSpaces = 256;
constinit HeldRef<AddressSpace> spaces_read[kMostSpaces] GUARDED_BY(lock) = {};
constinit size_t spaces_count GUARDED_BY(lock) = 0;

constinit WaitQueue never;

// Main function of a task: holds the directory that the task's creator passes, and waits forever.
void keep_directory(void* held) {
  const Ref<Chan> directory = Ref<Chan>::adopt(*static_cast<HeldRef<Chan>*>(held));
  kfree(held);
  const Guard guard(lock);
  never.wait_uninterruptible(lock, [&directory] { return !directory; });
}

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
  if (planted(Planted::kRefTask)) {
    auto* const held = static_cast<HeldRef<Chan>*>(kmalloc(sizeof(HeldRef<Chan>), KM_SLEEP));
    Result<Task*> task = task_create("directory", keep_directory, held);
    if (!held || !task) {
      kfree(held);
      if (task) task_discard(*task);
      return;
    }
    *held = Ref<Chan>(process.cwd).release();
    task_start(*task);
  }
}

void planted_space_read(const Ref<AddressSpace>& space) {
  if (!planted(Planted::kRefStatic)) return;
  const Guard guard(lock);
  if (spaces_count < kMostSpaces) spaces_read[spaces_count++] = Ref<AddressSpace>(space).release();
}
#endif
