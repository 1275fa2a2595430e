// Tests the tracer on the live system: a dump shows the live objects, in every context and state.
#include <string_view>

#include "arch/x86_64/smp.h"
#include "arch/x86_64/trap.h"
#include "arena.h"
#include "core/cpu.h"
#include "core/errstr.h"
#include "core/ktest.h"
#include "intern/trace_memory.h"
#include "kmalloc.h"
#include "lib/optimizer.h"
#include "lib/string.h"
#include "sched/task.h"
#include "tests/dump_text.h"
#include "trace/trace.h"

namespace {

// A cache for one test.
class TestCache {
 public:
  explicit TestCache(size_t size, int flags = 0)
      : cache_(
            kmem_cache_create("ktest_trace", size, 0, flags, nullptr, nullptr, nullptr, nullptr)) {
    EXPECT(cache_);
  }
  ~TestCache() { kmem_cache_destroy(cache_); }
  TestCache(const TestCache&) = delete;
  TestCache& operator=(const TestCache&) = delete;
  operator kmem_cache*() const { return cache_; }
  operator TraceSource() const { return cache_; }

 private:
  kmem_cache* cache_;
};

[[gnu::noinline]] void* ktest_leak_at_depth(kmem_cache* cache, unsigned depth) {
  if (depth <= 1) return kmem_cache_alloc(cache, KM_SLEEP);
  void* object = ktest_leak_at_depth(cache, depth - 1);
  keep_frame();
  return object;
}

constexpr size_t kObjects = 100;

void expect_exactly_the_leaked(size_t object_size) {
  const TestCache cache(object_size);
  void* objects[kObjects];
  void* before = kmem_cache_alloc(cache, KM_SLEEP);
  EXPECT(trace_command(cache, "start").ok());
  for (void*& object : objects) object = ktest_leak_at_depth(cache, 8);
  kmem_cache_free(cache, before);
  EXPECT(trace_command(cache, "stop").ok());
  void* after = kmem_cache_alloc(cache, KM_SLEEP);
  {
    const DumpText dump(cache);
    EXPECT(dump.has(" state stopped "));
    EXPECT(dump.identities_hold());
    EXPECT(dump.number("seen ") == kObjects);
    EXPECT(dump.number(" live ") == kObjects);
    EXPECT(dump.number(" bytes ") == kObjects * object_size);
    EXPECT(dump.number(" untracked ") == 1);
    EXPECT(dump.number(" unmatched ") == 1);
    EXPECT(dump.count(" allocations from stack\n") == 1);
    EXPECT(dump.has(" in 100 allocations from stack\n\t"));
    EXPECT(dump.count("ktest_leak_at_depth+0x") == 8);
    EXPECT(!dump.has("kmem_cache_alloc"));
    EXPECT(dump.has("contexts task "));
    EXPECT(dump.count("\t0xffff8") == kObjects);
    if (!dump.identities_hold() || dump.count("ktest_leak_at_depth+0x") != 8) {
      klog("%.*s", 1500, dump.text().data());
    }
  }
  for (void* object : objects) kmem_cache_free(cache, object);
  kmem_cache_free(cache, after);
  {
    const DumpText dump(cache);
    EXPECT(dump.identities_hold());
    EXPECT(dump.number(" live ") == 0);
    EXPECT(dump.number(" freed ") == kObjects);
    EXPECT(dump.count(" allocations from stack\n") == 0);
  }
  EXPECT(trace_command(cache, "reset").ok());
  const DumpText dump(cache);
  EXPECT(dump.has(" state off "));
  EXPECT(dump.has("echo start > #mem/kmemtrace/ktest_trace"));
}

// State of the test's interrupts. On each CPU, they allocate and free one object alternately.
struct InterruptWork {
  std::atomic<kmem_cache*> cache{nullptr};
  void* held[kMaxCpus] = {};
  bool registered = false;
};
constinit InterruptWork interrupt_work;
// No other code uses this vector, so the dump names its interrupts `irq ktest`.
constexpr uint8_t kVector = 0xf2;

[[gnu::noinline]] void ktest_interrupt_allocates(TrapFrame&, void*) {
  kmem_cache* cache = interrupt_work.cache.load();
  if (!cache) return;
  void*& held = interrupt_work.held[number_of(cpu_id())];
  if (held) {
    kmem_cache_free(cache, held);
    held = nullptr;
  } else {
    held = kmem_cache_alloc(cache, KM_ATOMIC);
  }
}

void use_interrupts(kmem_cache* cache) {
  if (!interrupt_work.registered) {
    EXPECT(interrupt_register_vector(kVector, "ktest", ktest_interrupt_allocates, nullptr).ok());
    interrupt_work.registered = true;
  }
  interrupt_work.cache = cache;
}

// Makes the interrupts allocate no more, waits until none is running, and frees their objects.
void end_interrupts(kmem_cache* cache) {
  interrupt_work.cache = nullptr;
  on_each_cpu([](void*) {}, nullptr);
  for (void*& held : interrupt_work.held) {
    kmem_cache_free(cache, held);
    held = nullptr;
  }
}

[[gnu::noinline]] void ktest_interrupted_function() {
  interrupt_raise_self(kVector);
  while (!interrupt_work.held[number_of(cpu_id())]) asm volatile("pause");
}

}  // namespace

KTEST(trace_shows_exactly_what_leaked) {
  expect_exactly_the_leaked(64);
}

KTEST(trace_shows_exactly_what_leaked_with_bufctls) {
  expect_exactly_the_leaked(1024);
}

KTEST(trace_names_interrupts_not_the_interrupted) {
  const TestCache cache(64);
  use_interrupts(cache);
  EXPECT(trace_command(cache, "start").ok());
  {
    const PreemptOff pinned;
    ktest_interrupted_function();
  }
  {
    const DumpText dump(cache);
    EXPECT(dump.number(" live ") == 1);
    EXPECT(dump.has("contexts irq ktest\n"));
    EXPECT(dump.has("ktest_interrupt_allocates+0x"));
    EXPECT(!dump.has("ktest_interrupted_function"));
    if (dump.has("ktest_interrupted_function")) klog("%.*s", 1500, dump.text().data());
  }
  end_interrupts(cache);
  EXPECT(trace_command(cache, "stop\nreset").ok());
}

KTEST(trace_states_and_errors) {
  const TestCache cache(64);
  const TestCache untraceable(64, KMC_NOTRACE);
  EXPECT(trace_command(untraceable, "start").error() == Errno::EPERM);
  EXPECT(!(kmem_cache_flags(untraceable) & (KMC_TRACED | KMC_EVER_TRACED)));
  EXPECT(trace_command(cache, "").error() == Errno::EINVAL);
  EXPECT(trace_command(cache, "start\nnonsense\n").error() == Errno::EINVAL);
  EXPECT(trace_command(cache, "start\nstop\nreset\nmark").error() == Errno::EINVAL);
  EXPECT(!(kmem_cache_flags(cache) & (KMC_TRACED | KMC_EVER_TRACED)));
  EXPECT(trace_command(cache, "stop\nreset\nstop").ok());
  EXPECT(trace_command(cache, "start depth=3").ok());
  EXPECT(trace_command(cache, "start depth=3").ok());
  EXPECT(trace_command(cache, "start depth=4").error() == Errno::EBUSY);
  EXPECT(trace_command_all("start").error() == Errno::EBUSY);
  void* a = ktest_leak_at_depth(cache, 8);
  EXPECT(trace_command(cache, "mark").ok());
  void* b = ktest_leak_at_depth(cache, 8);
  {
    const DumpText dump(cache);
    EXPECT(dump.has(" state running objsize 64 depth 3 mark 1\n"));
    EXPECT(dump.number(" truncated ") == 2);
    EXPECT(dump.count("ktest_leak_at_depth+0x") == 3);
    EXPECT(dump.has(", marks 0-1, "));
  }
  EXPECT(trace_command(cache, "reset").ok());
  {
    const DumpText dump(cache);
    EXPECT(dump.has(" state running "));
    EXPECT(dump.number(" cleared ") == 2);
    EXPECT(dump.number(" live ") == 0);
    EXPECT(dump.number(" untracked ") == 2);
    EXPECT(dump.identities_hold());
  }
  kmem_cache_free(cache, a);
  EXPECT(trace_command(cache, "stop\nstart\nstop").ok());
  {
    const DumpText dump(cache);
    EXPECT(dump.number(" unmatched ") == 1);
    EXPECT(dump.has(" state stopped "));
  }
  kmem_cache_free(cache, b);
  EXPECT(kmem_trace_reset(cache) == 0);
  EXPECT(kmem_trace_start(cache, "depth=5") == 0);
  EXPECT(kmem_trace_start(cache, "depth=6") == -static_cast<int>(Errno::EBUSY));
  EXPECT(kmem_trace_stop(cache) == 0);
  EXPECT(kmem_trace_reset(cache) == 0);
  EXPECT(!(kmem_cache_flags(cache) & (KMC_TRACED | KMC_EVER_TRACED)));
}

KTEST(trace_filters_by_size) {
  const TestCache cache(64);
  EXPECT(trace_command(cache, "start min=20 max=40").ok());
  EXPECT(trace_command(cache, "start min=20 max=40").ok());
  EXPECT(trace_command(cache, "start min=20").error() == Errno::EBUSY);
  EXPECT(trace_command(cache, "start").error() == Errno::EBUSY);
  void* objects[65];
  for (size_t size = 1; size <= 64; size++)
    objects[size] = kmem_cache_alloc_sized(cache, size, KM_SLEEP);
  {
    const DumpText dump(cache);
    EXPECT(dump.has(" depth 32 mark 0 min 20 max 40\n"));
    EXPECT(dump.identities_hold());
    EXPECT(dump.number("seen ") == 64);
    EXPECT(dump.number(" filtered ") == 43);
    EXPECT(dump.number(" live ") == 21);
    EXPECT(dump.number(" bytes ") == 21 * 30);
    EXPECT(dump.number(" untracked ") == 43);
    EXPECT(dump.has(" size 20 age ") && dump.has(" size 40 age "));
    EXPECT(!dump.has(" size 19 age ") && !dump.has(" size 41 age "));
  }
  // Records stay when the trace is stopped and then started without the size limits.
  EXPECT(trace_command(cache, "stop\nstart").ok());
  void* object = kmem_cache_alloc_sized(cache, 1, KM_SLEEP);
  {
    const DumpText dump(cache);
    EXPECT(dump.has(" depth 32 mark 0\n"));
    EXPECT(dump.number(" live ") == 22);
    EXPECT(dump.number(" filtered ") == 43);
  }
  for (size_t size = 1; size <= 64; size++) kmem_cache_free(cache, objects[size]);
  kmem_cache_free(cache, object);
  {
    const DumpText dump(cache);
    EXPECT(dump.identities_hold());
    EXPECT(dump.number(" live ") == 0);
    EXPECT(dump.number(" freed ") == 22);
    EXPECT(dump.number(" unmatched ") == 43);
  }
  EXPECT(trace_command(cache, "stop\nreset").ok());
}

// A pid filter matches the process itself, but not kernel tasks, other processes, or interrupts
// that arrive while the process runs.
KTEST(trace_filters_by_process) {
  const TestCache cache(64);
  Task* task = current_task();
  const uint32_t pid = task->pid;
  use_interrupts(cache);
  EXPECT(trace_command(cache, "start pid=4711").ok());
  kmem_cache_free(cache, kmem_cache_alloc(cache, KM_SLEEP));
  {
    const PreemptOff pinned;
    task->pid = 4711;
    kmem_cache_free(cache, kmem_cache_alloc(cache, KM_ATOMIC));
    ktest_interrupted_function();
    task->pid = 4712;
    kmem_cache_free(cache, kmem_cache_alloc(cache, KM_ATOMIC));
    task->pid = pid;
  }
  {
    const DumpText dump(cache);
    EXPECT(dump.has(" mark 0 pid 4711\n"));
    EXPECT(dump.identities_hold());
    EXPECT(dump.number("seen ") == 4);
    EXPECT(dump.number(" filtered ") == 3);
    EXPECT(dump.number(" recorded ") == 1);
    EXPECT(dump.number(" freed ") == 1);
  }
  end_interrupts(cache);
  EXPECT(trace_command(cache, "stop\nreset").ok());
}

// Allocates many objects. On average, the trace records one in 64.5 objects.
KTEST(trace_samples) {
  const TestCache cache(64);
  constexpr size_t kMany = 20'000;
  auto** objects = static_cast<void**>(kmalloc(kMany * sizeof(void*), KM_SLEEP));
  EXPECT(objects);
  if (!objects) return;
  EXPECT(trace_command(cache, "start sample=4K").ok());
  EXPECT(trace_command(cache, "start").error() == Errno::EBUSY);
  for (size_t i = 0; i < kMany; i++) objects[i] = kmem_cache_alloc(cache, KM_SLEEP);
  const auto near = [](uint64_t value, uint64_t truth) {
    return value > truth * 7 / 10 && value < truth * 13 / 10;
  };
  {
    const DumpText dump(cache);
    EXPECT(dump.has(" sample 4096\n"));
    EXPECT(dump.identities_hold());
    EXPECT(dump.number("seen ") == kMany);
    // The standard error of each number is one eighteenth.
    EXPECT(near(dump.number(" recorded "), kMany * 10 / 645));
    EXPECT(near(dump.number(" estimated_bytes "), kMany * 64));
    EXPECT(near(dump.number(" estimated_objects "), kMany));
    EXPECT(dump.number(" bytes ") == dump.number(" live ") * 64);
    EXPECT(dump.number(" untracked ") == dump.number(" filtered "));
    EXPECT(dump.count(" allocations from stack, estimated ") > 0);
    char status[1024];
    Result<size_t> length = trace_status(status, sizeof(status));
    EXPECT(length.ok() &&
           std::string_view(status, *length).find(" sample 4096\n") != std::string_view::npos);
  }
  for (size_t i = 0; i < kMany; i++) kmem_cache_free(cache, objects[i]);
  {
    const DumpText dump(cache);
    EXPECT(dump.identities_hold());
    EXPECT(dump.number(" freed ") == dump.number(" recorded "));
    EXPECT(dump.number(" unmatched ") == dump.number(" filtered "));
    EXPECT(dump.number(" estimated_bytes ") == 0);
    EXPECT(dump.number(" estimated_objects ") == 0);
  }
  // A stopped trace keeps its sampling rate until it is reset, even if it has no live records.
  EXPECT(trace_command(cache, "stop").ok());
  EXPECT(trace_command(cache, "start sample=8K").error() == Errno::EBUSY);
  EXPECT(trace_command(cache, "start sample=4K\nstop\nreset\nstart sample=1\n").ok());
  // The average distance of sampling points is one byte now: an object of 64 bytes is missed with
  // probability e^-64.
  void* object = kmem_cache_alloc(cache, KM_SLEEP);
  {
    const DumpText dump(cache);
    EXPECT(dump.number(" recorded ") == 1);
    EXPECT(dump.number(" estimated_bytes ") == 64);
  }
  kmem_cache_free(cache, object);
  EXPECT(trace_command(cache, "stop\nreset").ok());
  kfree(objects);
}

KTEST(trace_limit_is_a_command) {
  const uint64_t limit = trace_memory_limit();
  EXPECT(trace_command_all("limit 64K").ok());
  EXPECT(trace_memory_limit() == 64 * 1024);
  char text[256];
  Result<size_t> length = trace_status(text, sizeof(text));
  EXPECT(length.ok() && std::string_view(text, *length).starts_with("limit 65536 used 0 "));
  for (const char* bad : {"limit", "limit 0", "limit 1", "limit x", "limit 5T", "limit 1M 2M",
                          "limit 1M\nnonsense"}) {
    EXPECT(trace_command_all(bad).error() == Errno::EINVAL);
  }
  const TestCache cache(64);
  EXPECT(trace_command(cache, "limit 1M").error() == Errno::EINVAL);
  EXPECT(trace_memory_limit() == 64 * 1024);
  // The limit is too low for a start: nothing is started, and no memory is kept.
  EXPECT(trace_command_all("limit 4K").ok());
  EXPECT(trace_command(cache, "start").error() == Errno::ENOMEM);
  EXPECT(trace_memory_used() == 0);
  trace_memory_set_limit(limit);
}

KTEST(trace_counts_what_the_limit_keeps_out) {
  const TestCache cache(16);
  constexpr size_t kMany = 20'000;
  auto** objects = static_cast<void**>(kmalloc(kMany * sizeof(void*), KM_SLEEP));
  EXPECT(objects);
  if (!objects) return;
  const uint64_t limit = trace_memory_limit();
  EXPECT(trace_command(cache, "start").ok());
  trace_memory_set_limit(trace_memory_used() + 50 * kPageSize);
  for (size_t i = 0; i < kMany; i++) objects[i] = kmem_cache_alloc(cache, KM_SLEEP);
  {
    const DumpText dump(cache);
    EXPECT(dump.identities_hold());
    EXPECT(dump.number("seen ") == kMany);
    EXPECT(dump.number(" dropped ") > 0);
    EXPECT(dump.number(" live ") > 0);
    EXPECT(dump.number(" untracked ") == dump.number(" dropped "));
  }
  EXPECT(trace_memory_used() <= trace_memory_limit());
  trace_memory_set_limit(limit);
  for (size_t i = 0; i < kMany; i++) kmem_cache_free(cache, objects[i]);
  {
    const DumpText dump(cache);
    EXPECT(dump.identities_hold());
    EXPECT(dump.number(" live ") == 0);
    EXPECT(dump.number(" unmatched ") == dump.number(" dropped "));
  }
  EXPECT(trace_command(cache, "stop\nreset").ok());
  EXPECT(trace_memory_used() == 0);
  kfree(objects);
}

// A failed allocation of any kind gives no record.
KTEST(trace_records_no_failed_allocation) {
  // While `fails` is set, the constructor fails as if there were no memory.
  static bool fails;
  fails = false;
  kmem_cache* cache = kmem_cache_create(
      "ktest_failing", 5000, 0, KMC_NOMAGAZINE, nullptr,
      [](void*, void*, int) { return fails ? 1 : 0; }, nullptr, nullptr);
  EXPECT(cache);
  if (!cache) return;
  EXPECT(trace_command(cache, "start").ok());
  void* object = kmem_cache_alloc(cache, KM_SLEEP);
  fails = true;
  EXPECT(kmem_cache_alloc(cache, KM_SLEEP) == nullptr);
  EXPECT(kmem_cache_alloc(cache, KM_ATOMIC) == nullptr);
  {
    const DumpText dump(cache);
    EXPECT(dump.number("seen ") == 1);
    EXPECT(dump.number(" live ") == 1);
    EXPECT(dump.number(" untracked ") == 0);
  }
  kmem_cache_free(cache, object);
  EXPECT(trace_command(cache, "stop\nreset").ok());
  kmem_cache_destroy(cache);
}

// Objects that idle in magazines are not outstanding in a trace. An object that is reused
// repeatedly has one record at a time.
KTEST(trace_does_not_count_what_idles_in_magazines) {
  const TestCache cache(64);
  EXPECT(trace_command(cache, "start").ok());
  void* objects[kObjects];
  for (int round = 0; round < 10; round++) {
    for (void*& object : objects) object = kmem_cache_alloc(cache, KM_SLEEP);
    for (void* object : objects) kmem_cache_free(cache, object);
  }
  const DumpText dump(cache);
  EXPECT(dump.number("seen ") == 10 * kObjects);
  EXPECT(dump.number(" freed ") == 10 * kObjects);
  EXPECT(dump.number(" live ") == 0);
  EXPECT(dump.identities_hold());
  EXPECT(trace_command(cache, "stop\nreset").ok());
}

// The trace of a cache that was destroyed with live objects can still be read. The trace is freed
// together with the cache's structure, when the last object is freed and the last reference is
// released.
KTEST(trace_of_a_destroyed_cache) {
  kmem_cache* cache =
      kmem_cache_create("ktest_destroyed", 64, 0, 0, nullptr, nullptr, nullptr, nullptr);
  EXPECT(cache);
  if (!cache) return;
  EXPECT(trace_command(cache, "start").ok());
  void* object = ktest_leak_at_depth(cache, 3);
  kmem_cache_hold(cache);
  kmem_cache_destroy(cache);
  {
    const DumpText dump(cache);
    EXPECT(dump.number(" live ") == 1);
    EXPECT(dump.count("ktest_leak_at_depth+0x") == 3);
  }
  kmem_cache_free(cache, object);
  EXPECT(trace_memory_used() > 0);
  kmem_cache_release(cache);
  EXPECT(trace_memory_used() == 0);
}

KTEST(trace_dump_outlives_the_trace) {
  const TestCache cache(64);
  EXPECT(trace_command(cache, "start").ok());
  void* object = ktest_leak_at_depth(cache, 2);
  Result<TraceDump*> dump = trace_dump_open(cache);
  EXPECT(dump.ok());
  if (!dump) return;
  EXPECT(trace_command(cache, "stop\nreset").ok());
  kmem_cache_free(cache, object);
  char text[2048];
  Result<size_t> got = trace_dump_read(*dump, text, sizeof(text), 0);
  EXPECT(got.ok() &&
         std::string_view(text, *got).find("ktest_leak_at_depth+0x") != std::string_view::npos);
  trace_dump_close(*dump);
  EXPECT(trace_memory_used() == 0);
}
