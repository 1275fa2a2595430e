// Benchmarks of the allocator and the tracer, in the production kernel. The device #bench has
// several files (BenchContext). Reading a file runs the benches that belong to the file. The text
// that is read has a line `NAME VALUE` for each result (row); VALUE has two decimals.
//
// Under `scripts/guest --icount` a tick of the time stamp counter is one instruction, so the values
// are numbers of instructions that repeat exactly. Otherwise they are noisy ticks. A value includes
// the loop around the operation and the calls in the operation. Timer interrupts are included, too,
// as in real use. least() repeats a short operation in rounds and returns the cost in the cheapest
// round; most rounds have no timer interrupt. mean() is for operations that differ from each other.
// mean() averages over so many operations that timer interrupts are less than a thousandth of the
// cost.
//
// bench/bench.py has the meaning of the rows, their targets, and the figures of Akaros and Linux.
#pragma once

#include <cstdint>
#include <utility>

#include "arch/x86_64/time.h"
#include "arena.h"
#include "core/log.h"
#include "lib/optimizer.h"
#include "lib/result.h"
#include "sched/task.h"
#include "slab.h"

// Where a bench runs, and the file of #bench that it belongs to. kProcess runs in the system call
// of the reading process, all others in a separate kernel task.
//   kTask, kProcess  #bench/rows
//   kTaskAtScale     #bench/scale: many outstanding objects, all allocated by one CPU
//   kTaskOfContexts  #bench/contexts: many contexts
//   kTaskOnCpus      #bench/cpus: every CPU has outstanding objects
//   kTaskOfTwo       #bench/remote: the bench starts another task on a second CPU
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

// A cost in hundredths of an instruction; in rows about memory, in hundredths of a byte.
struct Cost {
  uint64_t hundredths;
};
inline Cost cost_of(uint64_t instructions, uint64_t operations) {
  return {instructions * 100 / operations};
}
// Appends a row to the text of the file that is being read. `pattern` and the arguments after it
// give the row's name.
void bench_row(Cost cost, const char* pattern, ...) __attribute__((format(printf, 2, 3)));

#define BENCH_INLINE __attribute__((always_inline))

// Keeps the current task on its CPU for the life of a scope, so that the task always uses the same
// magazines. Unlike under PreemptOff, the task may sleep, for example in kmem_cache_create().
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

// Returns the N of the option `NAME=N` on the kernel command line; a million by default. `name` is
// "objects" (the number of objects for #bench/scale) or "contexts" (the number of contexts for
// #bench/contexts, which have one object each). EINVAL for an invalid N. ENOMEM if there is not
// enough free memory for N objects of kBenchTiny bytes and their records. ENOMEM also if the limit
// of trace memory is too low for these records. The error string gives the needed amount.
Result<unsigned> bench_many(const char* name);
// #bench/scale and #bench/contexts measure with kBenchFew objects too, for comparison.
inline constexpr unsigned kBenchFew = 100;
inline constexpr size_t kBenchTiny = 16;  // bytes of an object in #bench/{scale,contexts,cpus}
// Calls run(argument) in a new task on CPU `cpu`, and waits for the task's end. With kAnyCpu, the
// task may begin on any CPU, but stays there. ENOMEM.
Result<void> bench_in_task(void (*run)(void*), void* argument, CpuId cpu = kAnyCpu);

// Returns EINVAL if the guest has only one CPU.
Result<void> bench_has_two_cpus();

// Runs `rounds` rounds of `operations` calls of body(i). Returns the cost of one call in the
// cheapest round. The loops of least() and mean() are not unrolled: the calls of an unrolled loop
// would have several stacks in turn, which differ in their return addresses.
template <typename Body>
BENCH_INLINE inline Cost least(unsigned rounds, unsigned operations, Body body) {
  uint64_t best = UINT64_MAX;
  for (unsigned round = 0; round < rounds; round++) {
    const uint64_t start = tsc();
#pragma GCC unroll 1
    for (unsigned i = 0; i < operations; i++) body(i);
    const uint64_t taken = tsc() - start;
    if (taken < best) best = taken;
  }
  return cost_of(best, operations);
}

// Returns the mean cost of `operations` calls of body(i).
template <typename Body>
BENCH_INLINE inline Cost mean(unsigned operations, const Body& body) {
  const uint64_t start = tsc();
#pragma GCC unroll 1
  for (unsigned i = 0; i < operations; i++) body(i);
  return cost_of(tsc() - start, operations);
}

// Returns the number of program counters that the tracer would record for an allocation by the
// calling function. `frame` is the caller's __builtin_frame_address(0).
unsigned callers_of(const void* frame);

// In most rows, a traced allocation records this many program counters.
inline constexpr unsigned kDepth = 10;

// Calls body() so deep in the stack that an allocation in body() records `depth` program counters.
// body() must be BENCH_INLINE. If `depth` is less than kDepth, the bench itself may already be
// deeper; then the record has more program counters.
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

// Calls body() with a call stack that depends on `stack`. body() must be BENCH_INLINE. on_stack()
// calls itself `levels` times, and each time `stack` chooses one of kSites call sites, the first
// time with its lowest digit. So there are kSites^`levels` different call stacks.
template <unsigned kSites = 4, typename Body>
[[gnu::noinline]] void on_stack(unsigned stack, unsigned levels, const Body& body) {
  if (levels == 0) {
    body();
    return;
  }
  const auto call_from = [&]<unsigned kSite>() BENCH_INLINE {
    if (stack % kSites != kSite) return;
    on_stack<kSites>(stack / kSites, levels - 1, body);
    asm volatile("# %0" ::"i"(kSite));  // so that the compiler does not merge the calls
  };
  [&]<unsigned... kSite>(std::integer_sequence<unsigned, kSite...>) BENCH_INLINE {
    (call_from.template operator()<kSite>(), ...);
  }
  (std::make_integer_sequence<unsigned, kSites>());
}
// on_stack() with kStackLevels levels has 4^5 = 1024 possible stacks, which is enough for kStacks.
inline constexpr unsigned kStacks = 1000, kStackLevels = 5;

// The number of objects over which least_of_each() averages. An object's address determines where
// the trace's table stores the object's record, which changes the cost by a few instructions.
inline constexpr unsigned kObjects = 32;

// A cache for one bench. All its objects must be free when the BenchCache is destroyed.
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

// An array in pages of page_arena. Allocating the array changes no slab cache.
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
// Allocates an object and frees it.
BENCH_INLINE inline void pair(kmem_cache* cache) {
  kmem_cache_free(cache, take(cache));
}

// kObjects objects, which the constructor allocates. give_back() or least_of_each() frees them.
struct Objects {
  explicit Objects(kmem_cache* cache) {
    for (void*& object : taken) object = take(cache);
  }
  void give_back(kmem_cache* cache) {
    for (void* object : taken) kmem_cache_free(cache, object);
  }
  void* taken[kObjects];
};

// Measures body(i), which allocates an object of `cache` and frees it again. Frees one of `objects`
// after another. Each time, body(i) allocates exactly the object that was just freed, and least()
// measures body(i). Returns the mean of these costs. All `objects` are free afterwards.
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
