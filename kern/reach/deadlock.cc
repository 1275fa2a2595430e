// The wait graph is exact while all CPUs are stopped. An edge consists of two fields: the Mutex for
// which a task waits (Task::waits_for), and the owner of that Mutex. Both fields are written with
// the spinlock of the Mutex held, and no spinlock is held while CPUs are stopped. A task that was
// woken but has not run yet still counts as waiting. If another task has taken the Mutex meanwhile,
// the woken task does have to wait; otherwise the Mutex has no owner, and there is no edge.
//
// Memory for the waits is allocated before CPUs stop. If this memory is too small, the search is
// repeated with more memory.
#include "reach/deadlock_impl.h"

#include "core/errstr.h"
#include "core/sleep.h"
#include "kmalloc.h"
#include "lib/format.h"
#include "reach/circles_impl.h"
#include "reach/reach.h"
#include "reach/stop_impl.h"

namespace {

// Set at boot.
constinit const ReachTasks* scheduler = nullptr;

}  // namespace

void reach_register_tasks(const ReachTasks& tasks) {
  scheduler = &tasks;
}

namespace reach {
namespace {

constexpr unsigned kTries = 6;
constexpr size_t kFirstRoom = 64;

uint64_t address_of(const void* pointer) {
  return reinterpret_cast<uint64_t>(pointer);
}

class DeadlockLook {
 public:
  DeadlockLook(size_t room, Deadlocks& deadlocks)
      : room_(room),
        waits_(static_cast<Wait*>(kmalloc(room * sizeof(Wait), KM_SLEEP))),
        deadlocks_(deadlocks) {}
  ~DeadlockLook() { kfree(waits_); }
  DeadlockLook(const DeadlockLook&) = delete;
  DeadlockLook& operator=(const DeadlockLook&) = delete;

  bool has_memory() const { return waits_ != nullptr; }
  // Stops all CPUs and searches for circles. Returns the number of waiting tasks. If this number is
  // greater than `room`, there was no search.
  size_t make() {
    with_world_stopped([](void* self) { static_cast<DeadlockLook*>(self)->stopped(); }, this);
    return count_;
  }

 private:
  static void add(void* self, const TaskHead& task, const Mutex& lock) {
    auto& look = *static_cast<DeadlockLook*>(self);
    if (look.count_ < look.room_)
      look.waits_[look.count_] = {address_of(&task), address_of(&lock), address_of(lock.owner())};
    look.count_++;
  }
  void stopped() {
    scheduler->waits(add, this);
    if (count_ <= room_) find_circles({waits_, count_}, deadlocks_);
  }

  const size_t room_;
  Wait* const waits_;
  Deadlocks& deadlocks_;
  size_t count_ = 0;
};

}  // namespace

void Deadlocks::circle(size_t size) {
  circles++;
  tasks += size;
  if (shown_count_ < kMostCircles) shown_[shown_count_++] = {size, member_count_, 0};
}

void Deadlocks::member(const Wait& wait) {
  if (circles > kMostCircles || member_count_ == kMostTasks) return;
  const auto& task = *reinterpret_cast<const TaskHead*>(wait.task);
  const auto& lock = *reinterpret_cast<const Mutex*>(wait.lock);
  Member& member = members_[member_count_++];
  shown_[shown_count_ - 1].shown++;
  format(member.name, sizeof(member.name), "%s", task.name);
  member.id = task.id;
  member.pid = task.pid;
  member.owner = lock.owner()->id;
  member.rank = lock.rank();
  member.lock = wait.lock;
  member.frame_count = scheduler->stack(task, member.frames.data(), member.frames.size());
}

Result<void> look_for_deadlocks(Deadlocks& deadlocks) {
  if (!scheduler) return {};
  size_t room = kFirstRoom;
  for (unsigned i = 0; i < kTries; i++) {
    DeadlockLook look(room, deadlocks);
    if (!look.has_memory())
      return fail(Errno::ENOMEM, "no memory for %lu tasks that wait for locks", room);
    const size_t count = look.make();
    if (count <= room) return {};
    room = count + count / 4;
  }
  return fail(Errno::ENOMEM, "the number of waiting tasks keeps growing: at least %lu", room);
}

}  // namespace reach
