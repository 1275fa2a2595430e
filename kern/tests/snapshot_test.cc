// Tests snapshots in the kernel: CPUs record and free while a snapshot is read, and a reader that
// waits for another reader's snapshot can be interrupted.
#include "trace/record/snapshot.h"

#include <atomic>

#include "core/cpu.h"
#include "core/ktest.h"
#include "intern/trace_memory.h"
#include "slab_os.h"
#include "tests/team.h"

namespace {

constexpr uint64_t kRecords = 60'000;

uint64_t object_of(uint64_t i) {
  return 0xffff900000000000 + i * 64;
}

void record(TraceTable& table, uint64_t i) {
  const InterruptsOff off;
  const Cpu& cpu = this_cpu();
  trace_memory_prepare();
  if (table.record_at_once(object_of(i), i % 5000, 1, ContextId{1}, cpu.stamp)) return;
  table.record({.object = object_of(i),
                .size = i % 5000,
                .stack = StackId{1},
                .context = ContextId{1},
                .time = {},
                .cpu = cpu.id,
                .truncated = false});
}
void forget(TraceTable& table, uint64_t i) {
  const InterruptsOff off;
  const CpuId cpu = cpu_id();
  if (!table.forget_at_once(object_of(i), cpu) && !table.forget_elsewhere(object_of(i), cpu))
    table.forget(object_of(i), cpu);
}

// A table, and trace memory for its records.
class Table {
 public:
  Table() {
    trace_memory_begin(slab_os_cpu_count());
    table_ = TraceTable::create(slab_os_cpu_count());
    EXPECT(table_);
  }
  ~Table() {
    TraceTable::destroy(table_);
    trace_memory_end();
    EXPECT(trace_memory_used() == 0);
  }
  TraceTable& operator*() { return *table_; }
  TraceTable* operator->() { return table_; }

 private:
  TraceTable* table_;
};

struct Writers {
  TraceTable& table;
  std::atomic<bool> stop{false};
  std::atomic<unsigned> number{0};
};

// Replaces each existing record by a new record. Three tasks run this function, and each replaces a
// third of the records.
void free_and_record(void* argument) {
  auto& writers = *static_cast<Writers*>(argument);
  const uint64_t first = writers.number++;
  for (uint64_t i = first; i < kRecords && !writers.stop; i += 3) {
    forget(writers.table, i);
    record(writers.table, kRecords + i);
  }
}

}  // namespace

KTEST(snapshot_shows_what_was_there_while_others_change_it) {
  Table table;
  for (uint64_t i = 0; i < kRecords; i++) record(*table, i);
  const uint64_t dropped = table->counters().dropped;
  EXPECT(dropped == 0);
  Writers writers{*table};
  {
    TraceSnapshot snapshot;
    EXPECT(snapshot.open(*table).ok());
    EXPECT(snapshot.counters().live == kRecords);
    Team team(free_and_record, &writers);
    for (unsigned i = 0; i < 3; i++) team.add();
    for (unsigned pass = 0; pass < 3; pass++) {
      uint64_t count = 0, sum = 0, wrong = 0;
      TraceSnapshot::Slice slice;
      snapshot.visit(slice, [&](const TraceRecord& record) {
        const uint64_t i = (record.object() - object_of(0)) / 64;
        wrong += i >= kRecords || record.size() != i % 5000;
        sum += i;
        count++;
      });
      EXPECT(wrong == 0);
      EXPECT(count == kRecords);
      EXPECT(sum == kRecords * (kRecords - 1) / 2);
    }
    team.join();
    EXPECT(table->counters().live == kRecords);
  }
  for (uint64_t i = 0; i < kRecords; i++) forget(*table, kRecords + i);
  const TraceCounters counters = table->counters();
  EXPECT(counters.live == 0 && counters.unmatched == 0 && counters.bytes == 0);
  EXPECT(counters.recorded == 2 * kRecords && counters.freed == 2 * kRecords);
}

KTEST(snapshot_waits_for_the_one_before_it_and_can_be_killed) {
  Table table;
  record(*table, 0);
  struct Shared {
    TraceTable* table;
    std::atomic<Task*> waiter{nullptr};
    std::atomic<int> error{0};
    std::atomic<uint64_t> live{0};
  };
  static Shared shared;
  shared.table = &*table;
  shared.waiter = nullptr;
  TraceSnapshot first;
  EXPECT(first.open(*table).ok());
  Team killed(
      [](void*) {
        TraceSnapshot second;
        shared.waiter = current_task();
        const Result<void> opened = second.open(*shared.table);
        shared.error = static_cast<int>(opened.error());
        EXPECT(!second.is_open());
        current_task()->interrupted = false;
      },
      nullptr);
  killed.add();
  while (!shared.waiter) task_yield();
  task_interrupt(shared.waiter);
  killed.join();
  EXPECT(shared.error == static_cast<int>(Errno::EINTR));
  // The next reader gets the snapshot, with all changes since the previous one.
  shared.waiter = nullptr;
  Team next(
      [](void*) {
        TraceSnapshot second;
        shared.waiter = current_task();
        EXPECT(second.open(*shared.table).ok());
        shared.live = second.counters().live;
      },
      nullptr);
  next.add();
  while (!shared.waiter) task_yield();
  record(*table, 1);
  EXPECT(shared.live == 0);
  first.close();
  next.join();
  EXPECT(shared.live == 2);
}
