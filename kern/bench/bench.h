// Benchmarks of the memory core and the tracer, in the production kernel. Reading #bench/rows runs
// every KBENCH except those at scale (#bench/scale and others) and those that need two CPUs
// (#bench/remote). It returns a line `NAME VALUE` for each row, with two decimals.
//
// Under `scripts/guest --icount` a tick of the time stamp counter is one instruction, so the values
// are counts that repeat exactly; otherwise they are noisy ticks. A row counts the whole operation,
// including the loop around it and the calls. Timer interrupts are included, as in real use. A
// short operation is repeated in rounds, and the cheapest round counts; most rounds have no timer
// interrupt. For operations that differ from each other, the row is the mean of very many, in which
// the interrupts are less than a thousandth.
//
// bench/bench.py has the meaning of the rows, their targets, and the values of other kernels.
#pragma once

#include <cstdint>

#include "arch/x86_64/time.h"
#include "arena.h"
#include "core/log.h"
#include "lib/optimizer.h"
#include "lib/result.h"
#include "sched/task.h"
#include "slab.h"

// Where a bench runs: in a kernel task of its own, or in the system call of the reading process.
// Benches at scale are not part of `rows`: with many objects of one CPU, with many contexts, and on
// all CPUs. kTaskOfTwo needs a second CPU for another task.
enum class BenchContext : uint8_t {
  kTask,
  kProcess,
  kTaskAtScale,
  kTaskOfContexts,
  kTaskOnCpus,
  kTaskOfTwo
};

struct KernelBench {
  void (*run)(void*);  // called with nullptr
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
// Outputs a row; `pattern` and the further arguments format its name.
void bench_row(Cost cost, const char* pattern, ...) __attribute__((format(printf, 2, 3)));

#define BENCH_INLINE __attribute__((always_inline))

// Keeps the current task on its CPU for the life of a scope, so that it finds its magazines again.
// Unlike PreemptOff it lets the task sleep, as when making a cache.
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

// The number of tiny objects of a bench at scale: `NAME=N` on the kernel command line, a million by
// default. `name` is "objects", or "contexts", each of which has one. EINVAL for an invalid number,
// ENOMEM if they do not fit in memory or the limit of trace memory; the error string gives the
// needed amount.
Result<unsigned> bench_many(const char* name);
// The number of objects for comparison, and the size of a tiny object.
inline constexpr unsigned kBenchFew = 100;
inline constexpr size_t kBenchTiny = 16;
// Calls run(argument) in a task on CPU `cpu`, or with kAnyCpu on the CPU where it begins, and waits
// for its end. ENOMEM.
Result<void> bench_in_task(void (*run)(void*), void* argument, uint32_t cpu = kAnyCpu);

// Checks that there are two CPUs: EINVAL.
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

// The number of program counters in the record of an allocation by a function; `frame` is its
// __builtin_frame_address(0).
unsigned callers_of(const void* frame);

// The frames of "traced, 10 frames".
inline constexpr unsigned kDepth = 10;

// Calls body(), which must be BENCH_INLINE, so deep that a record has `depth` program counters
// (more if the bench itself is deeper, up to kDepth).
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

// Calls body(), which must be BENCH_INLINE, from stack number `stack` of 4^`levels`.
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
// kStackLevels levels are enough for kStacks stacks.
inline constexpr unsigned kStacks = 1000, kStackLevels = 5;

// The number of objects to average over: an object's address determines the place of its record,
// which makes a difference of a few instructions.
inline constexpr unsigned kObjects = 32;

// A cache for one bench. All its objects must be free at its end.
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

// Traces a cache for the life of a scope.
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

// An array whose memory belongs to no cache.
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

// kObjects allocated objects.
struct Objects {
  explicit Objects(kmem_cache* cache) {
    for (void*& object : taken) object = take(cache);
  }
  void give_back(kmem_cache* cache) {
    for (void* object : taken) kmem_cache_free(cache, object);
  }
  void* taken[kObjects];
};

// The cost of body(i), which allocates an object and frees it: the mean over `objects`. Each of
// these is freed first, so that body gets it.
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
