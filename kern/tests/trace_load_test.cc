// The tracer under load from every CPU and from interrupts, while it is started with and without filters, stopped, reset and marked at random
// moments; what it holds is compared with an independent account.
#include <algorithm>
#include <atomic>

#include "arch/x86_64/smp.h"
#include "arch/x86_64/time.h"
#include "arch/x86_64/trap.h"
#include "boot.h"
#include "cpu.h"
#include "kmalloc.h"
#include "ktest.h"
#include "src/trace/page_buffer.h"
#include "src/trace/trace_memory.h"
#include "src/trace/tracer.h"
#include "team.h"
#include "trace.h"

namespace {

// What is known about whether an object has a record. It is not known for what was allocated while a command was under way.
enum class Expect : uint8_t { kRecorded, kNotRecorded, kEither };

struct Slot {
  void* object = nullptr;
  uint32_t size = 0;
  Expect expect = Expect::kEither;
  uint32_t resets = 0;  // how many there had been
};

constexpr unsigned kSlots = 200;
constexpr unsigned kWorkers = 8;

// `rounds=N` on the command line, for a long run.
unsigned rounds_wanted(unsigned usual) {
  size_t length = 0;
  const char* digits = boot_option("rounds", &length);
  unsigned rounds = 0;
  for (size_t i = 0; i < length && digits[i] >= '0' && digits[i] <= '9'; i++) {
    rounds = rounds * 10 + static_cast<unsigned>(digits[i] - '0');
  }
  return rounds > 0 ? rounds : usual;
}

// What the controller tells the workers: the state of the trace while no command is under way. Odd while one is. Then bit 1 says
// whether the trace is running.
struct Shared {
  kmem_cache* cache = nullptr;
  std::atomic<uint64_t> version{0};
  std::atomic<bool> running{false};
  std::atomic<uint32_t> min_size{0}, max_size{0};  // its filters
  std::atomic<uint32_t> resets{0};
  std::atomic<bool> pause{false};
  std::atomic<unsigned> paused{0};
  std::atomic<bool> stop{false};
  std::atomic<unsigned> next_worker{0};
  Slot slots[kWorkers][kSlots];
  Slot interrupt_slots[kMaxCpus][16];
  std::atomic<bool> interrupts{false};
};
constinit Shared shared;

// Allocates into a slot, and notes what can be known of its record.
void fill(Slot& slot, int flags) {
  const uint64_t version = shared.version.load();
  slot.resets = shared.resets.load();
  slot.size = 1 + ktest_random() % 64;
  const bool recorded = shared.running && slot.size >= shared.min_size && slot.size <= shared.max_size;
  slot.object = kmem_cache_alloc_sized(shared.cache, slot.size, flags);
  const bool quiet = version % 2 == 0 && shared.version.load() == version;
  slot.expect = !quiet ? Expect::kEither : recorded ? Expect::kRecorded : Expect::kNotRecorded;
}

void empty(Slot& slot) {
  kmem_cache_free(shared.cache, slot.object);
  slot.object = nullptr;
}

void change(Slot& slot, int flags) {
  if (slot.object) {
    empty(slot);
  } else {
    fill(slot, flags);
  }
}

void on_interrupt(TrapFrame&, void*) {
  if (!shared.interrupts.load()) return;
  change(shared.interrupt_slots[cpu_id()][ktest_random() % 16], KM_ATOMIC);
}

void worker(void*) {
  auto& slots = shared.slots[shared.next_worker.fetch_add(1)];
  while (!shared.stop) {
    if (shared.pause) {
      shared.paused++;
      while (shared.pause) task_yield();
      shared.paused--;
    }
    for (unsigned i = 0; i < 50; i++) {
      change(slots[ktest_random() % kSlots], KM_SLEEP);
      if (i % 16 == 0) interrupt_raise_self(0xf1);
    }
  }
}

template <typename Visit>
void for_each_slot(Visit visit) {
  for (auto& slots : shared.slots) {
    for (Slot& slot : slots) visit(slot);
  }
  for (auto& slots : shared.interrupt_slots) {
    for (Slot& slot : slots) visit(slot);
  }
}

// The records of the cache's table, sorted by object; nothing if there is no table.
size_t records_of(kmem_cache* cache, PageBuffer<TraceRecord>& records, TraceCounters* counters) {
  const MutexGuard guard(trace_control);
  TraceTable* table = trace_table_of(cache);
  *counters = {};
  if (!table) return 0;
  size_t count = 0;
  EXPECT(records.reserve(table->counters().live() + 1).ok());
  for (unsigned shard = 0; shard < TraceTable::kShards; shard++) {
    EXPECT(table->copy_shard(shard, records.data(), records.capacity(), &count, counters));
  }
  std::sort(records.data(), records.data() + count,
            [](const TraceRecord& a, const TraceRecord& b) { return a.object() < b.object(); });
  return count;
}

// Everything stands still. Each record is of an object that is out, with its size; each object that must have a record has it, and none
// that must not.
void compare() {
  PageBuffer<TraceRecord> records;
  TraceCounters counters;
  const size_t count = records_of(shared.cache, records, &counters);
  EXPECT(counters.seen == counters.recorded + counters.dropped + counters.filtered);
  EXPECT(counters.live() == count);
  EXPECT(counters.dropped == 0 && counters.stacks_lost == 0 && counters.contexts_lost == 0);
  size_t matched = 0, live = 0;
  uint64_t bytes = 0;
  for_each_slot([&](Slot& slot) {
    if (!slot.object) return;
    live++;
    const auto address = reinterpret_cast<uint64_t>(slot.object);
    const TraceRecord* end = records.data() + count;
    const TraceRecord* at =
        std::lower_bound(records.data(), const_cast<TraceRecord*>(end), address,
                         [](const TraceRecord& record, uint64_t object) { return record.object() < object; });
    const bool recorded = at != end && at->object() == address;
    const bool cleared = slot.resets != shared.resets.load();
    if (recorded) {
      matched++;
      bytes += at->size;
      EXPECT(at->size == slot.size);
      EXPECT(slot.expect != Expect::kNotRecorded && !(cleared && slot.expect == Expect::kRecorded));
    } else {
      EXPECT(slot.expect != Expect::kRecorded || cleared);
    }
  });
  EXPECT(matched == count);
  EXPECT(bytes == counters.live_bytes);
  struct kmem_cache_stats stats;
  kmem_cache_stats(shared.cache, &stats);
  EXPECT(stats.live == live);
}

void command(const char* text) {
  const std::string_view words(text);
  shared.version++;
  const Result<void> done = trace_command(shared.cache, words);
  const bool is_off = !trace_table_of(shared.cache);
  const bool is_busy = shared.running && words.starts_with("start");
  EXPECT(done.ok() || (words == "mark" && is_off) || (is_busy && done.error() == Errno::EBUSY));
  const TraceTable* table = trace_table_of(shared.cache);
  shared.running = table && table->running;
  shared.min_size = table ? table->options().min_size : 0;
  shared.max_size = table ? table->options().max_size : 0;
  if (words.find("reset") != std::string_view::npos) shared.resets++;
  shared.version++;
}

// Waits until no worker and no interrupt changes anything.
void pause_all(unsigned workers) {
  shared.pause = true;
  while (shared.paused != workers) task_yield();
  shared.interrupts = false;
  on_each_cpu([](void*) {}, nullptr);
}

void resume_all() {
  shared.interrupts = true;
  shared.pause = false;
  while (shared.paused != 0) task_yield();
}

bool load_stop;

// A mixture of sizes through kmalloc, and tasks, so that many caches are busy.
void churn(void*) {
  void* objects[32] = {};
  while (!__atomic_load_n(&load_stop, __ATOMIC_RELAXED)) {
    void*& object = objects[ktest_random() % 32];
    kfree(object);
    object = kmalloc(1 + ktest_random() % 10'000, KM_SLEEP);
    if (ktest_random() % 64 == 0) task_yield();
  }
  for (void* object : objects) kfree(object);
}

// The live objects of each cache that can be traced, in order of creation.
class LiveCounts {
 public:
  LiveCounts() {
    for (kmem_cache* cache = kmem_cache_next(nullptr); cache; cache = kmem_cache_next(cache)) {
      if (kmem_cache_flags(cache) & KMC_NOTRACE) continue;
      struct kmem_cache_stats stats;
      kmem_cache_stats(cache, &stats);
      ASSERT(count_ < std::size(live_));
      live_[count_++] = stats.live;
    }
  }
  bool operator==(const LiveCounts& other) const {
    return std::equal(live_, live_ + count_, other.live_, other.live_ + other.count_);
  }

 private:
  uint64_t live_[128];
  size_t count_ = 0;
};

}  // namespace

KTEST(trace_agrees_with_an_account_of_what_is_live) {
  shared.cache = kmem_cache_create("ktest_load", 64, 0, 0, nullptr, nullptr, nullptr, nullptr);
  EXPECT(shared.cache);
  if (!shared.cache) return;
  EXPECT(interrupt_register_vector(0xf1, "ktest_load", on_interrupt, nullptr).ok());
  shared.interrupts = true;
  Team team(worker, nullptr);
  for (unsigned i = 0; i < kWorkers; i++) team.add();
  static constexpr const char* kCommands[] = {"start",
                                              "start",
                                              "stop",
                                              "stop\nreset",
                                              "reset",
                                              "mark",
                                              "mark",
                                              "stop\nreset\nstart",
                                              "start min=20 max=50",
                                              "stop\nstart min=33",
                                              "stop\nstart"};
  const unsigned rounds = rounds_wanted(15);
  for (unsigned round = 0; round < rounds; round++) {
    for (unsigned i = ktest_random() % 4; i < 4; i++) {
      command(kCommands[ktest_random() % std::size(kCommands)]);
      for (unsigned j = ktest_random() % 8; j > 0; j--) task_yield();
    }
    static_cast<void>(task_sleep_until(monotonic_now() + Nanoseconds{ktest_random() % 8'000'000}));
    pause_all(kWorkers);
    compare();
    resume_all();
  }
  shared.stop = true;
  team.join();
  shared.interrupts = false;
  on_each_cpu([](void*) {}, nullptr);
  for_each_slot([](Slot& slot) {
    if (slot.object) empty(slot);
  });
  PageBuffer<TraceRecord> records;
  TraceCounters counters;
  EXPECT(records_of(shared.cache, records, &counters) == 0);
  EXPECT(trace_command(shared.cache, "stop\nreset").ok());
  kmem_cache_destroy(shared.cache);
  EXPECT(trace_memory_used() == 0);
}

KTEST(trace_every_cache_one_by_one_and_all_at_once_under_load) {
  EXPECT(trace_command_all("settle").ok());
  const LiveCounts before;
  load_stop = false;
  Team team(churn, nullptr);
  for (unsigned i = 0; i < 2 * cpu_count(); i++) team.add();
  const unsigned rounds = rounds_wanted(2);
  for (unsigned round = 0; round < rounds; round++) {
    for (kmem_cache* cache = kmem_cache_next(nullptr); cache; cache = kmem_cache_next(cache)) {
      const bool can_be_traced = !(kmem_cache_flags(cache) & KMC_NOTRACE);
      EXPECT(trace_command(cache, "start").ok() == can_be_traced);
    }
    EXPECT(trace_command_all("mark").ok());
    EXPECT(trace_command_all("stop").ok());
    EXPECT(trace_command_all("reset").ok());
    EXPECT(trace_command_all("start\nmark\nreset\nstop\nreset\n").ok());
  }
  __atomic_store_n(&load_stop, true, __ATOMIC_RELAXED);
  team.join();
  EXPECT(trace_command_all("settle").ok());
  EXPECT(LiveCounts() == before);
  EXPECT(trace_memory_used() == 0);
  for (kmem_cache* cache = kmem_cache_next(nullptr); cache; cache = kmem_cache_next(cache)) {
    EXPECT(!(kmem_cache_flags(cache) & (KMC_TRACED | KMC_EVER_TRACED)));
  }
}
