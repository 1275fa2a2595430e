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

// Frees an object with one of 2^levels stacks. The assembly keeps the two calls apart.
[[gnu::noinline, gnu::noclone]] void free_along(const Traced& traced, void* object, uint32_t word,
                                                unsigned levels) {
  if (levels == 0) return traced.free(object);
  if (word & 1) {
    free_along(traced, object, word >> 1, levels - 1);
    asm volatile("" ::"i"(1));
  } else {
    free_along(traced, object, word >> 1, levels - 1);
    asm volatile("" ::"i"(0));
  }
}

constexpr size_t kDumpRoom = 256 * 1024;

// An open text dump.
class TextFile {
 public:
  explicit TextFile(const Traced& traced) : dump_(trace_dump_open(traced.cache()).take()) {}
  ~TextFile() { trace_dump_close(dump_); }
  TextFile(const TextFile&) = delete;
  TextFile& operator=(const TextFile&) = delete;

  // Reads the whole dump into a buffer of kDumpRoom bytes, and returns its length.
  size_t read(char* to) const {
    size_t length = 0;
    while (const size_t got =
               trace_dump_read(dump_, to + length, kDumpRoom - length, length).take())
      length += got;
    return length;
  }

 private:
  TraceDump* const dump_;
};

// An open binary dump of all traces.
class BinaryFile {
 public:
  explicit BinaryFile(const Traced&) : dump_(trace_binary_open().take()) {}
  ~BinaryFile() { trace_binary_close(dump_); }
  BinaryFile(const BinaryFile&) = delete;
  BinaryFile& operator=(const BinaryFile&) = delete;

  size_t read(char* to) const { return trace_binary_read(dump_, to, kDumpRoom, 0); }

 private:
  TraceBinaryDump* const dump_;
};

// Reads a dump, calls the function, sweeps often, and expects that the dump reads as before.
template <typename Dump, typename Change>
void expect_constant(const Traced& traced, const Dump& dump, Change change) {
  PageBuffer<char> before, after;
  EXPECT(before.reserve(kDumpRoom).ok() && after.reserve(kDumpRoom).ok());
  const size_t length = dump.read(before.data());
  EXPECT(length > 2'000 && length < kDumpRoom);
  change();
  sweep_often(traced);
  EXPECT(dump.read(after.data()) == length);
  EXPECT(std::equal(before.data(), before.data() + length, after.data()));
}

// Opens a dump of one object, and of the stacks that have freed the others of its stack. While the
// dump is open, the trace ends, and its table no longer has these stacks.
template <typename Dump>
void expect_who_freed_stays() {
  const Traced traced;
  EXPECT(trace_command(traced.cache(), "stop\nreset\nstart frees").ok());
  const Path path = random_path();
  Trail trail;
  void* object = nullptr;
  for (unsigned i = 0; i <= 256; i++) {
    if (object) free_along(traced, object, i, 8);
    object = traced.allocate(path, &trail);
  }
  {
    const Dump dump(traced);
    expect_constant(traced, dump, [&traced] {
      EXPECT(trace_command(traced.cache(), "stop\nreset\nstart").ok());
    });
  }
  traced.free(object);
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
  const TextFile text(traced);
  const BinaryFile binary(traced);
  expect_constant(traced, binary, [&] {
    expect_constant(traced, text, [&] {
      for (void* object : objects) traced.free(object);
    });
  });
}

KTEST(sweep_keeps_who_freed_in_an_open_text) {
  expect_who_freed_stays<TextFile>();
}
KTEST(sweep_keeps_who_freed_in_an_open_binary_dump) {
  expect_who_freed_stays<BinaryFile>();
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
