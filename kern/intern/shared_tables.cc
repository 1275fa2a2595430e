#include "intern/shared_tables.h"

#include <atomic>

#include "arch/x86_64/smp.h"
#include "arch/x86_64/time.h"
#include "core/log.h"
#include "core/probe_guard.h"
#include "intern/dump_reserve.h"
#include "intern/stack_hints_impl.h"
#include "intern/trace_memory.h"
#include "slab_os.h"

constinit StackTable trace_stacks;
constinit ContextTable trace_contexts;
constinit Mutex trace_sweep_lock{LockRank::kTraceSweep};

namespace {

constinit Mutex lock{LockRank::kTraceUsers};
constinit uint32_t users GUARDED_BY(lock) = 0;
constinit std::atomic<bool> is_open{false};  // changed under the lock

// Opens the tables for all CPUs, including those that start later in the boot.
Result<void> open_tables() {
  const unsigned cpus = slab_os_cpu_count();
  trace_memory_begin(cpus);
  Result<void> opened = trace_stacks.open();
  if (opened) {
    opened = trace_contexts.open();
    if (!opened) trace_stacks.clear();
  }
  if (opened) {
    stack_hints_open(cpus);
  } else {
    trace_memory_end();
  }
  return opened;
}

void close_tables() {
  stack_hints_close();
  trace_contexts.clear();
  trace_stacks.clear();
  trace_memory_end();
}

}  // namespace

// The lists of users. A sweep visits the first user of a list and moves it to the end; new
// users are added at the end, too. So as soon as the list begins with a user that the sweep has
// already visited, the sweep has visited all users that were in the list when the sweep began.
class TableUsers {
 public:
  void add(TableUser& user) {
    list_of(user.holds_).push_back(user);
    user.is_user_ = true;
  }
  static void remove(TableUser& user) {
    user.link_.unlink();
    user.is_user_ = false;
  }
  // The next user that this sweep has to visit; nullptr if the sweep of the list is complete.
  // `sweep` is the number of the sweep.
  TableUser* next(TableUser::Holds holds, uint32_t sweep) {
    Users& list = list_of(holds);
    TableUser* const user = list.front();
    if (!user || user->asked_ == sweep) return nullptr;
    user->asked_ = sweep;
    user->link_.unlink();
    list.push_back(*user);
    return user;
  }
  void forget_recent() {
    for (Users& list : lists_) {
      for (TableUser& user : list) user.forget_recent();
    }
  }

 private:
  using Users = List<TableUser, &TableUser::link_>;
  Users& list_of(TableUser::Holds holds) { return lists_[static_cast<size_t>(holds)]; }
  Users lists_[2];
};

namespace {

constinit TableUsers table_users GUARDED_BY(lock);

}  // namespace

// Allocates the dump reserve before it takes the lock, because the allocation may reap. A reap may
// end a trace, and the end of a trace takes this lock.
Result<void> trace_users_add(TableUser& user) {
  TRY(dump_reserve_hold());
  const MutexGuard guard(lock);
  const bool was_open = is_open.load(std::memory_order_relaxed);
  const Result<void> opened = was_open ? Result<void>() : open_tables();
  if (!opened) {
    dump_reserve_drop();
    return opened;
  }
  is_open.store(true, std::memory_order_release);
  users++;
  table_users.add(user);
  return {};
}

void trace_users_drop(TableUser& user) {
  dump_reserve_drop();
  {
    const MutexGuard guard(lock);
    TableUsers::remove(user);
    if (--users > 0) return;
  }
  const MutexGuard no_sweep(trace_sweep_lock);
  const MutexGuard guard(lock);
  if (users > 0 || !is_open.load(std::memory_order_relaxed)) return;
  is_open.store(false, std::memory_order_relaxed);
  close_tables();
}

RetainingStopped::RetainingStopped() {
  lock.lock();
}
RetainingStopped::~RetainingStopped() {
  lock.unlock();
}

// --- Readings (NumbersReading). Two counters count them, as in sleepable RCU. `side` selects the
// counter that a new reading increments. A waiter switches `side`, and waits until the old counter
// is 0. A reading that increments the old counter after the switch notices this, decrements the
// counter and begins again.

namespace {

constinit std::atomic<uint32_t> side{0};
constinit std::atomic<uint32_t> readings[2];

uint32_t begin_reading() {
  for (;;) {
    const uint32_t now = side.load();
    readings[now]++;
    if (side.load() == now) return now;
    readings[now]--;
  }
}

}  // namespace

NumbersReading::NumbersReading() : side_(begin_reading()) {}
NumbersReading::~NumbersReading() {
  readings[side_]--;
}

// Polls. A reading cannot wake the waiter, because a reading may end with any lock held. Polling is
// good enough, because waits are rare.
void trace_readings_wait() {
  static constinit Spinlock wait_lock{LockRank::kDevice};
  static constinit WaitQueue no_wake;
  constexpr Nanoseconds kStep{1'000'000'000 / kTickHz};
  const uint32_t old = side.load();
  side.store(1 - old);
  while (readings[old].load() != 0) {
    const Guard guard(wait_lock);
    static_cast<void>(no_wake.wait_uninterruptible(
        wait_lock, [old] { return readings[old].load() == 0; }, monotonic_now() + kStep));
  }
}

// --- For the sweeper.

bool trace_users_any() {
  return is_open.load(std::memory_order_relaxed);
}

void trace_users_retain(TableUser::Holds holds, uint32_t sweep, Retained& retained) {
  for (;;) {
    const MutexGuard guard(lock);
    TableUser* const user = table_users.next(holds, sweep);
    if (!user) return;
    user->retain(retained);
  }
}

void trace_users_forget_recent() {
  const MutexGuard guard(lock);
  on_each_cpu(
      [](void*) {
        lock.known_held();  // the CPU that sent this interrupt holds the lock
        const ProbesOffHere no_hit;
        stack_hints_clear();
        table_users.forget_recent();
      },
      nullptr);
}
