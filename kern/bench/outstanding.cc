// Benches with many outstanding objects (objects that are allocated and have a record). They
// measure the cost of a traced pair (an allocation and a free), of the longest hook (the tracer's
// work in one allocation or free), of a free after the trace has stopped, and of dumps. They also
// measure the memory of the records.
#include <algorithm>

#include "arch/x86_64/interrupts.h"
#include "bench/bench.h"
#include "intern/trace_memory.h"
#include "trace/trace.h"

namespace {

constexpr unsigned kMany = 100'000, kOperations = 16'000;
constexpr size_t kSize = 64;

// `count` objects, all allocated from the same call stack, for the life of a scope.
class Outstanding {
 public:
  Outstanding(kmem_cache* cache, unsigned count) : cache_(cache), count_(count), objects_(count) {
    at_depth(kDepth, [&]() BENCH_INLINE {
      for (unsigned i = 0; i < count_; i++) objects_[i] = take(cache_);
    });
  }
  ~Outstanding() {
    for (unsigned i = 0; i < count_; i++) kmem_cache_free(cache_, objects_[i]);
  }
  Outstanding(const Outstanding&) = delete;
  Outstanding& operator=(const Outstanding&) = delete;
  unsigned count() const { return count_; }
  // Frees object number `i` and allocates another one in its place.
  BENCH_INLINE void renew(unsigned i) const {
    kmem_cache_free(cache_, objects_[i]);
    objects_[i] = take(cache_);
  }

 private:
  kmem_cache* const cache_;
  const unsigned count_;
  const Block<void*> objects_;
};

// The cost of an allocation and a free, depending on which of the outstanding objects is freed: the
// newest, the oldest or a random object.
struct Orders {
  Cost newest, oldest, random;
};

Orders orders_of_free(kmem_cache* cache, const Outstanding& objects) {
  const unsigned count = objects.count();
  const Objects newer(cache);
  Orders orders;
  at_depth(kDepth, [&]() BENCH_INLINE {
    orders.newest = least_of_each(cache, newer, [cache](unsigned) BENCH_INLINE { pair(cache); });
    unsigned next = 0;
    orders.oldest = mean(kOperations, [&](unsigned) BENCH_INLINE {
      objects.renew(next);
      next = next + 1 == count ? 0 : next + 1;
    });
    uint32_t seed = 1;
    orders.random = mean(kOperations, [&](unsigned) BENCH_INLINE {
      seed = seed * 1664525 + 1013904223;
      objects.renew(static_cast<unsigned>(uint64_t{seed} * count >> 32));
    });
  });
  return orders;
}

// For each of `count` objects, the number of instructions of its allocation (`taken`) and of its
// free (`freed`).
struct EachCost {
  explicit EachCost(unsigned count) : taken(count), freed(count) {}
  Block<uint32_t> taken, freed;
};

// Allocates kMany objects, then frees them. Stores the cost of each operation.
[[gnu::noinline]] void measure_each(kmem_cache* cache, const Block<void*>& objects,
                                    const EachCost& cost) {
  at_depth(kDepth, [&]() BENCH_INLINE {
    for (unsigned i = 0; i < kMany; i++) {
      const InterruptsOff off;
      const uint64_t start = tsc();
      objects[i] = take(cache);
      cost.taken[i] = static_cast<uint32_t>(tsc() - start);
    }
    for (unsigned i = 0; i < kMany; i++) {
      const InterruptsOff off;
      const uint64_t start = tsc();
      kmem_cache_free(cache, objects[i]);
      cost.freed[i] = static_cast<uint32_t>(tsc() - start);
    }
  });
}

// Allocates objects[from] to objects[to - 1], with kStacks different stacks.
void allocate_on_stacks(kmem_cache* cache, const Block<void*>& objects, unsigned from,
                        unsigned to) {
  for (unsigned i = from; i < to; i++) {
    on_stack(i % kStacks, kStackLevels, [&]() BENCH_INLINE { objects[i] = take(cache); });
  }
}
void free_all(kmem_cache* cache, const Block<void*>& objects, unsigned count) {
  for (unsigned i = 0; i < count; i++) kmem_cache_free(cache, objects[i]);
}

// Reads a dump to its end with read(buffer, size, offset).
template <typename Read>
void read_all(const Block<char>& buffer, size_t size, const Read& read) {
  uint64_t offset = 0;
  while (const size_t got = read(buffer.data(), size, offset)) offset += got;
}

}  // namespace

KBENCH(orders, kTask) {
  const BenchCache cache(kSize);
  for (const unsigned count : {1000u, 10'000u, kMany}) {
    const Traced traced(cache);
    const Orders orders = orders_of_free(cache, Outstanding(cache, count));
    bench_row(orders.newest, "traced_newest_of_%u", count);
    bench_row(orders.oldest, "traced_oldest_of_%u", count);
    bench_row(orders.random, "traced_random_of_%u", count);
  }
}

// The untraced run and the traced one move the same objects through the same magazines in the same
// order. So the difference in an operation's cost is the cost of its hook.
KBENCH(longest_hook, kTask) {
  const BenchCache cache(kSize);
  const Block<void*> objects(kMany);
  const EachCost plain(kMany), hooked(kMany);
  for (unsigned i = 0; i < 2; i++) measure_each(cache, objects, plain);
  const Traced traced(cache);
  measure_each(cache, objects, hooked);
  int64_t longest = 0, sum = 0;
  for (unsigned i = 0; i < kMany; i++) {
    const int64_t taken = int64_t{hooked.taken[i]} - plain.taken[i],
                  freed = int64_t{hooked.freed[i]} - plain.freed[i];
    longest = std::max({longest, taken, freed});
    sum += taken;
  }
  bench_row(cost_of(static_cast<uint64_t>(longest), 1), "longest_hook");
  bench_row(cost_of(static_cast<uint64_t>(sum), kMany), "added_growing");
}

// The cost of freeing an object that has no record, when the trace has stopped and still contains
// kMany records of other objects. Measures only the free. An object is allocated again before the
// next free, so that magazines neither fill up nor run empty.
KBENCH(free_after_stop, kTask) {
  constexpr unsigned kUnrecorded = 1000;
  const BenchCache cache(kSize);
  const Outstanding unrecorded(cache, kUnrecorded);
  const Block<void*> objects(kUnrecorded);
  for (unsigned i = 0; i < kUnrecorded; i++) objects[i] = take(cache);
  {
    const Traced traced(cache);
    const Outstanding recorded(cache, kMany);
    kmem_trace_stop(cache);
    uint64_t empty = UINT64_MAX, sum = 0;
    const InterruptsOff off;
    for (unsigned i = 0; i < 16; i++) {
      const uint64_t start = tsc();
      const uint64_t taken = tsc() - start;
      if (taken < empty) empty = taken;
    }
    for (unsigned i = 0; i < kUnrecorded; i++) {
      const uint64_t start = tsc();
      kmem_cache_free(cache, objects[i]);
      sum += tsc() - start - empty;
      objects[i] = take(cache);
    }
    bench_row(cost_of(sum, kUnrecorded), "free_after_stop");
  }
  free_all(cache, objects, kUnrecorded);
}

// The trace memory in bytes per outstanding object: with a few objects, and the largest value while
// the number of outstanding objects grows from kFirst to kLast. All memory that the trace takes
// counts, so with a few objects most of it is for the stacks, the pool of pages and the hints.
KBENCH(memory_of_few, kTask) {
  constexpr unsigned kFew = 1000, kMore = 10'000;
  const BenchCache cache(kSize);
  const Block<void*> objects(kMore);
  const uint64_t before = trace_memory_used();
  const Traced traced(cache);
  // Only one call here, so that there are only kStacks stacks.
  for (unsigned count = kFew; count <= kMore; count += kFew) {
    allocate_on_stacks(cache, objects, count - kFew, count);
    if (count == kFew || count == kMore)
      bench_row(cost_of(trace_memory_used() - before, count), "bytes_per_object_of_%u", count);
  }
  free_all(cache, objects, kMore);
}

KBENCH(memory, kTask) {
  constexpr unsigned kFirst = 50'000, kLast = 200'000, kStep = 500;
  const BenchCache cache(kSize);
  const Block<void*> objects(kLast);
  const uint64_t before = trace_memory_used();
  const Traced traced(cache);
  allocate_on_stacks(cache, objects, 0, kFirst);
  Cost worst = {0};
  for (unsigned count = kFirst; count < kLast; count += kStep) {
    const Cost now = cost_of(trace_memory_used() - before, count);
    worst = std::max(worst, now, [](Cost a, Cost b) { return a.hundredths < b.hundredths; });
    allocate_on_stacks(cache, objects, count, count + kStep);
  }
  bench_row(worst, "bytes_per_object");
  free_all(cache, objects, kLast);
}

// The cost of a text dump and of a binary dump of kMany records, divided by kMany.
KBENCH(dumps, kTask) {
  constexpr size_t kBuffer = 64 * 1024;
  const BenchCache cache(kSize);
  const Block<void*> objects(kMany);
  const Block<char> buffer(kBuffer);
  const Traced traced(cache);
  allocate_on_stacks(cache, objects, 0, kMany);
  {
    const uint64_t start = tsc();
    Result<TraceDump*> dump = trace_dump_open(static_cast<kmem_cache*>(cache));
    ASSERT(dump.ok());
    read_all(buffer, kBuffer, [&](char* to, size_t size, uint64_t offset) {
      Result<size_t> got = trace_dump_read(*dump, to, size, offset);
      ASSERT(got.ok());
      return *got;
    });
    trace_dump_close(*dump);
    bench_row(cost_of(tsc() - start, kMany), "dump");
  }
  {
    const uint64_t start = tsc();
    Result<TraceBinaryDump*> dump = trace_binary_open();
    ASSERT(dump.ok());
    read_all(buffer, kBuffer, [&](char* to, size_t size, uint64_t offset) {
      return trace_binary_read(*dump, to, size, offset);
    });
    trace_binary_close(*dump);
    bench_row(cost_of(tsc() - start, kMany), "dump_binary");
  }
  free_all(cache, objects, kMany);
}

// The cost of traced pairs while few other objects are outstanding (kBenchFew), and while many are
// outstanding (bench_many). One CPU allocates all objects. The objects are tiny, so the tracer uses
// most of the memory.
KBENCH(scale, kTaskAtScale) {
  constexpr size_t kRecordBytes = 32;
  Result<unsigned> many = bench_many("objects");
  if (!many) return;
  const BenchCache cache(kBenchTiny);
  for (const unsigned count : {kBenchFew, *many}) {
    const uint64_t before = trace_memory_used();
    const Traced traced(cache);
    const Outstanding objects(cache, count);
    const Orders orders = orders_of_free(cache, objects);
    const char* const name = count == kBenchFew ? "few" : "many";
    bench_row(orders.newest, "%s_newest", name);
    bench_row(orders.oldest, "%s_oldest", name);
    bench_row(orders.random, "%s_random", name);
    if (count == kBenchFew) continue;
    const Cost bytes = cost_of(trace_memory_used() - before, count);
    ASSERT(bytes.hundredths >= kRecordBytes * 100);  // no record was dropped
    bench_row(bytes, "many_bytes");
  }
}
