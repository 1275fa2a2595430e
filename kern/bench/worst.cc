// Benches of the worst cases of an allocation's record: its kernel stack is not the one that the
// CPU's hint names (intern/stack_hints_impl.h), it is deep, or trace memory is at its limit. A
// program can choose its system calls so that the kernel gets into these cases again and again.
#include <optional>

#include "bench/bench.h"
#include "intern/shared_tables.h"
#include "intern/trace_memory.h"
#include "trace/control/control.h"

namespace {

constexpr size_t kSize = 64;
constexpr unsigned kOperations = 320;  // a multiple of kObjects
// Rows of kDeep frames: the most that a trace can record, less a few.
constexpr unsigned kDeep = 60;
constexpr const char* kDeepTrace = "depth=64";
// kTenSites^kTenLevels different stacks: on_stack<kTenSites>(stack, kTenLevels, …).
constexpr unsigned kTenSites = 10, kTenLevels = 4, kManyStacks = 10'000;

BENCH_INLINE inline void renew(kmem_cache* cache, void*& object) {
  kmem_cache_free(cache, object);
  object = take(cache);
}

// Returns the cost of operation(i, levels), which frees an object, and allocates one `levels` + 1
// calls deeper than this function. `levels` is such that the allocation has `frames` frames.
template <typename Operation>
[[gnu::noinline]] Cost cost_of_each(unsigned operations, unsigned frames,
                                    const Operation& operation) {
  const unsigned own = callers_of(__builtin_frame_address(0));
  ASSERT(own < frames);
  const unsigned levels = frames - own - 1;
  return least(8, operations, [&](unsigned i) BENCH_INLINE { operation(i, levels); });
}

// What a trace of the cache adds to operation().
template <typename Operation>
Cost added(kmem_cache* cache, const char* options, unsigned operations, unsigned frames,
           const Operation& operation) {
  const Cost plain = cost_of_each(operations, frames, operation);
  const Traced traced(cache, options);
  return {cost_of_each(operations, frames, operation).hundredths - plain.hundredths};
}

// Uses up trace memory, for the life of a scope. Interrupts are off, so that no sweep frees any.
class Exhausted {
 public:
  explicit Exhausted(kmem_cache* cache) : cache_(cache) {
    trace_memory_set_limit(trace_memory_used());
    for (unsigned i = 0; i < kFilling; i++) {
      on_stack<kTenSites>(i, kTenLevels, [&]() BENCH_INLINE { objects_[i] = take(cache_); });
    }
  }
  ~Exhausted() {
    for (unsigned i = 0; i < kFilling; i++) kmem_cache_free(cache_, objects_[i]);
    trace_memory_set_limit(limit_);
  }
  Exhausted(const Exhausted&) = delete;
  Exhausted& operator=(const Exhausted&) = delete;

 private:
  static constexpr unsigned kFilling = kManyStacks / 2;  // as many allocations and stacks

  kmem_cache* const cache_;
  const Block<void*> objects_{kFilling};
  const uint64_t limit_ = trace_memory_limit();
  const InterruptsOff off_;
};

// Returns the cost of an allocation. Makes kTimes of them, number i from stack number_of(i). The
// caller's other calls of this function must come from the same place for the same stacks.
constexpr unsigned kTimes = 1000;
template <typename NumberOf>
[[gnu::noinline]] Cost allocations(kmem_cache* cache, const NumberOf& number_of) {
  const uint64_t before = tsc();
  const uint64_t nothing = tsc() - before;
  uint64_t sum = 0;
  for (unsigned i = 0; i < kTimes; i++) {
    on_stack<kTenSites>(number_of(i), kTenLevels, [&]() BENCH_INLINE {
      const uint64_t start = tsc();
      void* const object = take(cache);
      sum += tsc() - start - nothing;
      kmem_cache_free(cache, object);
    });
  }
  return cost_of(sum, kTimes);
}

// Calls body() `levels` + 1 calls deeper. Each of the calls has `bytes` more in its frame.
template <typename Body>
[[gnu::noinline]] void in_frames_of(size_t bytes, unsigned levels, const Body& body) {
  escape(__builtin_alloca(bytes));
  if (levels == 0) {
    body();
  } else {
    in_frames_of(bytes, levels - 1, body);
  }
  keep_frame();
}

}  // namespace

// Two stacks that differ only in the outermost call of on_stack(). So they have the same hint, and
// each of them makes the hint wrong for the other one.
KBENCH(two_paths, kTask) {
  const BenchCache cache(kSize);
  Objects objects(cache);
  const auto paths = [&](unsigned number) BENCH_INLINE {
    return [&, number](unsigned i, unsigned levels) BENCH_INLINE {
      on_stack(i % number, levels,
               [&]() BENCH_INLINE { renew(cache, objects.taken[i % kObjects]); });
    };
  };
  bench_row(added(cache, nullptr, kOperations, kDepth, paths(2)), "added_two_paths");
  const auto deep = [&](unsigned number) {
    const Cost cost = added(cache, kDeepTrace, kOperations, kDeep, paths(number));
    return Cost{cost.hundredths / kDeep};
  };
  bench_row(deep(1), "added_each_of_%u_frames", kDeep);
  bench_row(deep(2), "added_each_of_%u_frames_two_paths", kDeep);
  objects.give_back(cache);
}

// One path, whose frames have other sizes each time. So its return addresses lie elsewhere.
KBENCH(frame_sizes, kTask) {
  constexpr unsigned kFrameSizes = 16;
  const BenchCache cache(kSize);
  Objects objects(cache);
  bench_row(added(cache, nullptr, kOperations, kDepth,
                  [&](unsigned i, unsigned levels) BENCH_INLINE {
                    in_frames_of(i % kFrameSizes * 16, levels,
                                 [&]() BENCH_INLINE { renew(cache, objects.taken[i % kObjects]); });
                  }),
            "added_%u_frame_sizes", kFrameSizes);
  objects.give_back(cache);
}

// Each stack has an object of its own, so no sweep forgets a stack.
KBENCH(many_stacks, kTask) {
  const BenchCache cache(kSize);
  const Block<void*> objects(kManyStacks);
  for (unsigned i = 0; i < kManyStacks; i++) objects[i] = take(cache);
  bench_row(added(cache, nullptr, kManyStacks, kDepth,
                  [&](unsigned i, unsigned levels) BENCH_INLINE {
                    ASSERT(levels == kTenLevels);
                    on_stack<kTenSites>(i, kTenLevels,
                                        [&]() BENCH_INLINE { renew(cache, objects[i]); });
                  }),
            "added_%u_stacks", kManyStacks);
  for (unsigned i = 0; i < kManyStacks; i++) kmem_cache_free(cache, objects[i]);
}

// Two traces record a different number of frames of the same stack, in turn. Would show that one
// takes the hint of the other.
KBENCH(two_depths, kTask) {
  const BenchCache whole(kSize), cut(kSize);
  kmem_cache* const caches[] = {whole, cut};
  Objects objects[] = {Objects(whole), Objects(cut)};
  const auto operation = [&](unsigned i, unsigned levels) BENCH_INLINE {
    on_stack(0, levels,
             [&]() BENCH_INLINE { renew(caches[i % 2], objects[i % 2].taken[i / 2 % kObjects]); });
  };
  const Cost plain = cost_of_each(kOperations, kDepth, operation);
  {
    const Traced first(whole), second(cut, "depth=9");
    static_assert(kDepth > 9);
    const Cost traced = cost_of_each(kOperations, kDepth, operation);
    bench_row({traced.hundredths - plain.hundredths}, "added_two_depths");
  }
  objects[0].give_back(whole);
  objects[1].give_back(cut);
}

// Measures allocations while trace memory is exhausted, so that no record can be made: from a stack
// that is stored, and from stacks that the tracer has never seen and cannot store. The first turn
// of the loop stores the former, and is not measured.
KBENCH(exhausted, kTask) {
  const BenchCache cache(kSize);
  const Traced traced(cache);
  TraceTable& table = *trace_table_of(TraceSource(cache));
  std::optional<Exhausted> exhausted;
  const struct {
    const char* row;
    bool new_stacks;
  } turns[] = {{nullptr, false}, {"unrecorded", false}, {"unrecorded_new_stack", true}};
#pragma GCC unroll 1
  for (const auto& turn : turns) {
    const TraceCounters before = table.counters();
    const uint32_t stored = trace_stacks.fill().entries;
    const Cost cost = allocations(cache, [=](unsigned i) { return turn.new_stacks ? i + 1 : 0; });
    if (!turn.row) {
      exhausted.emplace(cache);
      continue;
    }
    ASSERT(table.counters().dropped == before.dropped + kTimes);
    ASSERT(trace_stacks.fill().entries == stored);
    bench_row(cost, "%s", turn.row);
  }
}
