// Counts what the memory core and the tracer cost, in the system that people run: reading
// #bench/rows runs every KBENCH but those at scale, which #bench/scale runs, and those that need
// two CPUs, which #bench/remote runs, and gives a line `NAME VALUE` for each row, with two
// decimals.
//
// Under `scripts/guest --icount` a tick of the time stamp counter is one instruction, so the values
// are counts that repeat exactly; without it they are ticks, and noise. What a row counts is the
// whole of the operation: the loop around it and the calls too. Clock ticks come in between, as in
// life. A short operation is repeated in rounds of which the cheapest counts, and most rounds see
// no tick; where operations differ from each other the mean of very many counts, in which the ticks
// are less than a thousandth.
//
// bench/bench.py knows what the rows mean, what they are to be, and what others take for the same.
#pragma once

#include <cstdint>

#include "arch/x86_64/time.h"
#include "arena.h"
#include "core/log.h"
#include "lib/optimizer.h"
#include "lib/result.h"
#include "sched/task.h"
#include "slab.h"

// Where a bench runs: in a kernel task of its own, or in the system call of the process that reads.
// Those at scale are no part of `rows`: with many objects of one CPU, with many contexts, and on
// all CPUs. One of two has another task on another CPU.
enum class BenchContext : uint8_t {
  kTask,
  kProcess,
  kTaskAtScale,
  kTaskOfContexts,
  kTaskOnCpus,
  kTaskOfTwo
};

struct KernelBench {
  void (*run)(void*);  // with nullptr
  BenchContext context;
};

#define KBENCH(name, context)                                                                 \
  static void kbench_##name(void*);                                                           \
  [[gnu::section(".kbenches"), gnu::used,                                                     \
    gnu::aligned(8)]] static const KernelBench kbench_entry_##name = {kbench_##name,          \
                                                                      BenchContext::context}; \
  static void kbench_##name(void*)

// Hundredths of an instruction.
struct Cost {
  uint64_t hundredths;
};
inline Cost cost_of(uint64_t instructions, uint64_t operations) {
  return {instructions * 100 / operations};
}
// Puts a row out. `pattern` and what follows make its name.
void bench_row(Cost cost, const char* pattern, ...) __attribute__((format(printf, 2, 3)));

#define BENCH_INLINE __attribute__((always_inline))

// Keeps the current task on its CPU for the life of a scope: it finds the magazines there that it
// has left. Unlike PreemptOff it lets the task sleep, as making a cache may.
class Pinned {
 public:
  Pinned() {
    const InterruptsOff stays;
    current_task()->pinned = true;
  }
  ~Pinned() { current_task()->pinned = false; }
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;
};

// How many tiny objects a bench at scale has: `NAME=N` on the kernel command line, else a million.
// `name` is objects, or contexts of which each has one. EINVAL if that is no such number, ENOMEM
// without room for them in memory or the limit of trace memory; the error string says what is
// needed.
Result<unsigned> bench_many(const char* name);
// With how few it is compared, and the size of such an object.
inline constexpr unsigned kBenchFew = 100;
inline constexpr size_t kBenchTiny = 16;
// Calls run(argument) in a task that stays on CPU `cpu`, or with kAnyCpu on the one on which it
// begins, and waits for its end. ENOMEM.
Result<void> bench_in_task(void (*run)(void*), void* argument, uint32_t cpu = kAnyCpu);

// EINVAL with one CPU.
Result<void> bench_has_two_cpus();

// The cheapest of `rounds` rounds of `operations` calls of body(i).
template <typename Body>
BENCH_INLINE inline Cost least(unsigned rounds, unsigned operations, Body body) {
  uint64_t best = UINT64_MAX;
  for (unsigned round = 0; round < rounds; round++) {
    const uint64_t start = tsc();
    for (unsigned i = 0; i < operations; i++) body(i);
    const uint64_t taken = tsc() - start;
    if (taken < best) best = taken;
  }
  return cost_of(best, operations);
}

// The mean of `operations` calls of body(i).
template <typename Body>
BENCH_INLINE inline Cost mean(unsigned operations, const Body& body) {
  const uint64_t start = tsc();
  for (unsigned i = 0; i < operations; i++) body(i);
  return cost_of(tsc() - start, operations);
}

// How many program counters a record has of what a function allocates, by its
// __builtin_frame_address(0).
unsigned callers_of(const void* frame);

// The frames of "traced, 10 frames".
inline constexpr unsigned kDepth = 10;

// Calls body(), which must be BENCH_INLINE, where a record has `depth` program counters (or as many
// more as the bench has by itself, which is less than kDepth).
template <typename Body>
[[gnu::noinline]] void at_depth(unsigned depth, const Body& body) {
  if (const unsigned callers = callers_of(__builtin_frame_address(0)); callers >= depth) {
    ASSERT(callers == depth || depth < kDepth);
    body();
  } else {
    at_depth(depth, body);
  }
  keep_frame();
}

// Calls body(), which must be BENCH_INLINE, from one of four to the power of `levels` stacks.
template <typename Body>
[[gnu::noinline]] void on_stack(unsigned stack, unsigned levels, const Body& body) {
  if (levels == 0) {
    body();
    return;
  }
  switch (stack % 4) {
    case 0:
      on_stack(stack / 4, levels - 1, body);
      asm volatile("# 0");
      break;
    case 1:
      on_stack(stack / 4, levels - 1, body);
      asm volatile("# 1");
      break;
    case 2:
      on_stack(stack / 4, levels - 1, body);
      asm volatile("# 2");
      break;
    default:
      on_stack(stack / 4, levels - 1, body);
      asm volatile("# 3");
  }
}
// Enough for this many.
inline constexpr unsigned kStacks = 1000, kStackLevels = 5;

// Of each of as many objects: where it lies decides where its record goes, which makes a difference
// of a few instructions.
inline constexpr unsigned kObjects = 32;

// A cache for one bench, traced on request. What is allocated from it must be free when it goes.
class BenchCache {
 public:
  explicit BenchCache(size_t size)
      : cache_(kmem_cache_create("bench", size, 0, 0, nullptr, nullptr, nullptr, nullptr)) {
    ASSERT(cache_);
  }
  ~BenchCache() { kmem_cache_destroy(cache_); }
  BenchCache(const BenchCache&) = delete;
  BenchCache& operator=(const BenchCache&) = delete;
  operator kmem_cache*() const { return cache_; }

 private:
  kmem_cache* const cache_;
};

// A cache is traced for the life of a scope.
class Traced {
 public:
  explicit Traced(kmem_cache* cache, const char* options = nullptr) : cache_(cache) {
    ASSERT(kmem_trace_start(cache, options) == 0);
  }
  ~Traced() {
    kmem_trace_stop(cache_);
    kmem_trace_reset(cache_);
  }
  Traced(const Traced&) = delete;
  Traced& operator=(const Traced&) = delete;

 private:
  kmem_cache* const cache_;
};

// An array that shows in no cache.
template <typename T>
class Block {
 public:
  explicit Block(size_t count)
      : bytes_((count * sizeof(T) + 4095) / 4096 * 4096),
        data_(static_cast<T*>(arena_alloc(page_arena, bytes_, KM_SLEEP))) {
    ASSERT(data_);
  }
  ~Block() { arena_free(page_arena, data_, bytes_); }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  T& operator[](size_t i) const { return data_[i]; }
  T* data() const { return data_; }

 private:
  const size_t bytes_;
  T* const data_;
};

BENCH_INLINE inline void* take(kmem_cache* cache) {
  return kmem_cache_alloc(cache, KM_ATOMIC);
}
// alloc+free
BENCH_INLINE inline void pair(kmem_cache* cache) {
  kmem_cache_free(cache, take(cache));
}

// kObjects objects that have been taken.
struct Objects {
  explicit Objects(kmem_cache* cache) {
    for (void*& object : taken) object = take(cache);
  }
  void give_back(kmem_cache* cache) {
    for (void* object : taken) kmem_cache_free(cache, object);
  }
  void* taken[kObjects];
};

// The cost of body(i), which allocates an object and frees it: the mean over `objects`, each of
// which is freed first, so that it is the one that body gets.
template <typename Body>
BENCH_INLINE inline Cost least_of_each(kmem_cache* cache, const Objects& objects,
                                       const Body& body) {
  uint64_t sum = 0;
  for (void* const object : objects.taken) {
    kmem_cache_free(cache, object);
    sum += least(3, 100, body).hundredths;
  }
  return {sum / kObjects};
}
