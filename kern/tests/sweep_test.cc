// Tests the sweeper of stacks and contexts: entries of the tables that nobody uses are forgotten,
// and their numbers are reused. trace_proof_test.cc tests that entries in use stay intact.
#include <algorithm>
#include <atomic>

#include "arch/x86_64/time.h"
#include "core/cpu.h"
#include "core/ktest.h"
#include "intern/page_buffer.h"
#include "intern/shared_tables.h"
#include "intern/sweeper.h"
#include "intern/trace_memory.h"
#include "sched/task.h"
#include "slab.h"
#include "tests/dump_text.h"
#include "tests/proof_stacks.h"
#include "tests/team.h"
#include "trace/control/control.h"

namespace {

using proof::allocate_along;
using proof::Path;
using proof::Trail;
using proof::UserCall;

constexpr uint32_t kDepth = 32;

Path random_path() {
  return {.word = static_cast<uint32_t>(ktest_random()), .frames = 16};
}

// A cache that is traced for the life of a scope.
class Traced {
 public:
  Traced()
      : cache_(kmem_cache_create("ktest_swept", 64, 0, 0, nullptr, nullptr, nullptr, nullptr)) {
    EXPECT(cache_ && kmem_trace_start(cache_, nullptr) == 0);
  }
  ~Traced() {
    EXPECT(kmem_trace_stop(cache_) == 0 && kmem_trace_reset(cache_) == 0);
    kmem_cache_destroy(cache_);
  }
  Traced(const Traced&) = delete;
  Traced& operator=(const Traced&) = delete;

  kmem_cache* cache() const { return cache_; }
  void* allocate(const Path& path, Trail* trail) const {
    return allocate_along(path, {cache_, nullptr, 64, KM_SLEEP, kDepth}, trail);
  }
  void free(void* object) const { kmem_cache_free(cache_, object); }

 private:
  kmem_cache* const cache_;
};

constexpr unsigned kMany = 2'000;

// Allocates and frees objects, each with a stack of its own.
void come_and_go(const Traced& traced, unsigned count = kMany) {
  for (unsigned i = 0; i < count; i++) {
    Trail trail;
    traced.free(traced.allocate(random_path(), &trail));
  }
}

// Lets four tasks allocate with changing PIDs and user stacks, so that they reuse forgotten table
// entries. Then sweeps.
void sweep_and_reuse(const Traced& traced) {
  static std::atomic<uint32_t> pid{0};
  Team team(
      [](void* argument) {
        Task& task = *current_task();
        task.pid = 20'000 + pid.fetch_add(1) % 1'000;
        for (unsigned i = 0; i < 4; i++) {
          UserCall call;
          if (call.enter(1'000'000 + pid * 4 + i)) {
            come_and_go(*static_cast<const Traced*>(argument), kMany / 16);
            call.leave();
          }
        }
        task.pid = 0;
      },
      const_cast<Traced*>(&traced));
  for (unsigned i = 0; i < 4; i++) team.add();
  team.join();
  trace_sweep();
}

void sweep_often(const Traced& traced) {
  for (unsigned i = 0; i < 4; i++) sweep_and_reuse(traced);
}

}  // namespace

KTEST(sweep_forgets_what_nobody_holds) {
  {
    const Traced traced;
    const uint64_t forgotten = trace_sweeps().forgotten;
    come_and_go(traced);
    trace_sweep();
    EXPECT(trace_stacks.size() < 100);
    EXPECT(trace_sweeps().forgotten > forgotten + kMany / 2);
    // Once the first rounds have taken what they need, further rounds need no more memory.
    for (unsigned i = 0; i < 5; i++) sweep_and_reuse(traced);
    const uint64_t used = trace_memory_used();
    for (unsigned i = 0; i < 20; i++) sweep_and_reuse(traced);
    EXPECT(trace_memory_used() <= used + used / 10);
  }
  EXPECT(trace_memory_used() == 0);
}

KTEST(sweep_keeps_what_open_dumps_show) {
  const Traced traced;
  void* objects[100];
  Trail trail;
  for (void*& object : objects) object = traced.allocate(random_path(), &trail);
  constexpr size_t kSize = 256 * 1024;
  PageBuffer<char> before, after;
  EXPECT(before.reserve(kSize).ok() && after.reserve(kSize).ok());
  TraceDump* const dump = trace_dump_open(traced.cache()).take();
  TraceBinaryDump* const binary = trace_binary_open().take();
  const auto read = [&](char* to) {
    size_t length = 0;
    while (const size_t got = trace_dump_read(dump, to + length, kSize / 2 - length, length).take())
      length += got;
    return length + trace_binary_read(binary, to + length, kSize - length, 0);
  };
  const size_t length = read(before.data());
  EXPECT(length > 20'000 && length < kSize);
  for (void* object : objects) traced.free(object);
  sweep_often(traced);
  EXPECT(read(after.data()) == length);
  EXPECT(std::equal(before.data(), before.data() + length, after.data()));
  trace_binary_close(binary);
  trace_dump_close(dump);
}

// Would find a sweeper that only counts what was added: when memory is full nothing is added any
// more, so no sweep would ever come, although nobody needs the old stacks.
KTEST(sweep_comes_when_stacks_cannot_be_stored) {
  constexpr unsigned kMost = 20'000;
  const uint64_t limit = trace_memory_limit();
  {
    const Traced traced;
    TraceTable& table = *trace_table_of(traced.cache());
    trace_memory_set_limit(trace_memory_used() + (1 << 20));
    PageBuffer<void*> objects;
    EXPECT(objects.reserve(kMost).ok());
    unsigned count = 0;
    Trail trail;
    while (count < kMost && table.counters().stacks_lost == 0)
      objects[count++] = traced.allocate(random_path(), &trail);
    EXPECT(count < kMost);
    while (count > 0) traced.free(objects[--count]);
    bool stored = false;
    for (unsigned tries = 0; tries < 1'000 && !stored; tries++) {
      const uint64_t lost = table.counters().stacks_lost;
      traced.free(traced.allocate(random_path(), &trail));
      stored = table.counters().stacks_lost == lost;
      static_cast<void>(task_sleep_until(monotonic_now() + Nanoseconds{10'000'000}));
    }
    EXPECT(stored);
  }
  trace_memory_set_limit(limit);
}

KTEST(sweep_waits_for_who_reads) {
  const Traced traced;
  static std::atomic<unsigned> swept;
  swept = 0;
  Team team(
      [](void*) {
        trace_sweep();
        swept++;
      },
      nullptr);
  {
    const NumbersReading reading;
    team.add();
    for (int i = 0; i < 5; i++)
      static_cast<void>(task_sleep_until(monotonic_now() + Nanoseconds{10'000'000}));
    EXPECT(swept == 0);
  }
  team.join();
  EXPECT(swept == 1);
}

KTEST(sweep_by_command) {
  const uint64_t before = trace_sweeps().sweeps;
  EXPECT(trace_command_all("sweep").ok());
  EXPECT(trace_sweeps().sweeps == before);  // nothing is traced
  {
    const Traced traced;
    come_and_go(traced);
    EXPECT(trace_command_all("mark\nsweep\nmark").ok());
    EXPECT(trace_sweeps().sweeps > before && trace_stacks.size() < 100);
    const DumpText dump(traced.cache());
    EXPECT(dump.has(" mark 2\n"));
    EXPECT(trace_command(traced.cache(), "sweep").error() == Errno::EINVAL);
  }
  EXPECT(trace_memory_used() == 0);
}

// No command requests these sweeps: the tables grow, and a tick requests each. After a sweep the
// sweeper rests for many times its length, which a busy host stretches.
KTEST(sweep_comes_by_itself) {
  const Traced traced;
  const uint64_t before = trace_sweeps().sweeps;
  for (unsigned i = 0; i < 3'000 && trace_sweeps().sweeps < before + 3; i++) {
    if (trace_stacks.size() < 4 * kMany) come_and_go(traced, 500);
    static_cast<void>(task_sleep_until(monotonic_now() + Nanoseconds{10'000'000}));
  }
  EXPECT(trace_sweeps().sweeps >= before + 3);
  EXPECT(trace_stacks.size() < 5 * kMany);
}
