// Makes each allocation in the whole life of a trace fail, one by one, from start to reset.
// (tests/host/trace_failures_test.cc covers the kernel's source files that the host tests include.
// This test covers the others: commands, flags, dumps, and the hooks themselves.)
#include <atomic>

#include "core/cpu.h"
#include "core/ktest.h"
#include "core/not_roots.h"
#include "intern/trace_memory.h"
#include "lib/optimizer.h"
#include "lib/string.h"
#include "sched/task.h"
#include "tests/trace_records.h"
#include "trace/control/control.h"
#include "trace/trace.h"

namespace {

// Makes one allocation of the test's own task fail: the one with number `failing`, counted from 0.
struct Order {
  const Task* task = nullptr;
  std::atomic<uint64_t> asked = 0;
  std::atomic<uint64_t> failing = UINT64_MAX;
  std::atomic<bool> failed = false;
};
constinit Order order;

int fails_nth(kmem_inject_site, const void*, size_t, int) {
  const Cpu& cpu = this_cpu();
  if (cpu.current != order.task || cpu.interrupt_depth > 0) return 0;
  if (order.asked.fetch_add(1, std::memory_order_relaxed) !=
      order.failing.load(std::memory_order_relaxed))
    return 0;
  order.failed = true;
  return 1;
}

[[gnu::noinline]] void* alloc_at_depth(kmem_cache* cache, unsigned depth) {
  void* object = depth > 0 ? alloc_at_depth(cache, depth - 1) : kmem_cache_alloc(cache, KM_ATOMIC);
  keep_frame();
  return object;
}

constexpr size_t kObjects = 200;
constexpr size_t kDepths = 24;

// The effects of a failure on one life of a trace.
struct Outcome {
  unsigned refused;  // commands that failed with ENOMEM
  uint64_t failed;   // failed allocations from the cache
  uint64_t lost;     // lost records, stacks and contexts
};

void expect_no_memory(const Result<void>& result, Outcome* outcome) {
  if (result.ok()) return;
  EXPECT(result.error() == Errno::ENOMEM);
  outcome->refused++;
}

// Dumps have reserved memory, so opening a dump never fails.
template <typename Dump>
void expect_dump(Result<Dump*> dump, void (*read_and_close)(Dump*)) {
  EXPECT(dump.ok());
  if (dump.ok()) read_and_close(*dump);
}

NOT_ROOTS constinit char buffer[kPageSize];

void read_text(TraceDump* dump) {
  uint64_t offset = 0;
  for (;;) {
    Result<size_t> got = trace_dump_read(dump, buffer, sizeof(buffer), offset);
    EXPECT(got.ok());
    if (!got.ok() || *got == 0) break;
    offset += *got;
  }
  EXPECT(offset > 0);
  trace_dump_close(dump);
}

void read_binary(TraceBinaryDump* dump) {
  uint64_t offset = 0;
  while (const size_t got = trace_binary_read(dump, buffer, sizeof(buffer), offset)) offset += got;
  EXPECT(offset > 0);
  trace_binary_close(dump);
}

void allocate(kmem_cache* cache, void** objects, Outcome* outcome) {
  for (size_t i = 0; i < kObjects; i++) {
    objects[i] = alloc_at_depth(cache, i % kDepths);
    outcome->failed += objects[i] == nullptr;
  }
}

Outcome live(kmem_cache* cache) {
  void* objects[kObjects];
  Outcome outcome = {};
  const Result<void> started = trace_command(cache, "start");
  expect_no_memory(started, &outcome);
  allocate(cache, objects, &outcome);
  if (started.ok()) {
    expect_no_memory(trace_command(cache, "mark\nstop"), &outcome);
    expect_dump(trace_dump_open(cache), read_text);
    expect_dump(trace_binary_open(), read_binary);
  }
  // Start traces of all sources. The command continues the stopped trace of this cache, or fails
  // for all sources.
  expect_no_memory(trace_command_all("start"), &outcome);
  order.failing = UINT64_MAX;

  const TraceCounters counters = counters_of(cache);
  if (started.ok()) {
    EXPECT(counters.seen == kObjects - outcome.failed);
    EXPECT(counters.seen == counters.recorded + counters.dropped);
    EXPECT(counters.live == counters.recorded);
    outcome.lost = counters.dropped + counters.stacks_lost + counters.contexts_lost;
  }
  for (void* object : objects) kmem_cache_free(cache, object);
  EXPECT(counters_of(cache).live == 0);
  EXPECT(trace_command_all("stop\nreset").ok());
  EXPECT(trace_memory_used() == 0);
  return outcome;
}

}  // namespace

KTEST(trace_each_allocation_fails_once_in_turn) {
  kmem_cache* cache =
      kmem_cache_create("ktest_failures", 64, 0, 0, nullptr, nullptr, nullptr, nullptr);
  EXPECT(cache);
  if (!cache) return;
  order.task = current_task();
  order.failing = UINT64_MAX;
  EXPECT(kmem_inject_begin(fails_nth));
  unsigned refused = 0, failed = 0;
  uint64_t nth = 0;
  for (bool reached = true; reached && nth < 10'000; nth++) {
    order.asked = 0;
    order.failed = false;
    order.failing = nth;
    const Outcome outcome = live(cache);
    // A failure has at most one effect. The failure of a page for the pool has none.
    EXPECT(outcome.refused + outcome.failed + outcome.lost <= 1);
    refused += outcome.refused;
    failed += outcome.failed;
    reached = order.failed;
  }
  kmem_inject_end();
  EXPECT(nth > kObjects && nth < 10'000);
  // The number of allocations depends on the state of magazines, so it varies.
  EXPECT(failed > kObjects / 2);
  klog("%lu allocations failed in turn, %u of them objects; %u commands were refused", nth - 1,
       failed, refused);
  EXPECT(kmem_cache_verify(cache) == nullptr);
  kmem_cache_destroy(cache);
}
