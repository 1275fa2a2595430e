// An allocation and its free on real processors: the kernel's own source, ten frames deep. A traced pair is to be seen beside
// an untraced one of the same run. Each thread frees the oldest of 256 objects of its own and allocates another.
#include <benchmark/benchmark.h>

#include <vector>

#include "slab.h"
#include "world.h"

namespace {

constexpr unsigned kDepth = 8;  // calls below the thread's own few
constexpr size_t kHeld = 256;

kmem_cache* new_cache(bool traced) {
  kmem_cache* cache = kmem_cache_create("bench", 64, 0, 0, nullptr, nullptr, nullptr, nullptr);
  if (!cache) abort();
  if (traced) world_trace(cache);
  return cache;
}

[[gnu::noinline]] void pairs(benchmark::State& state, kmem_cache* cache, unsigned depth) {
  if (depth > 0) {
    pairs(state, cache, depth - 1);
    asm volatile("");
    return;
  }
  std::vector<void*> held(kHeld);
  for (void*& object : held) object = kmem_cache_alloc(cache, KM_ATOMIC);
  size_t oldest = 0;
  for (auto _ : state) {
    kmem_cache_free(cache, held[oldest]);
    held[oldest] = kmem_cache_alloc(cache, KM_ATOMIC);
    oldest = (oldest + 1) % kHeld;
  }
  for (void* object : held) kmem_cache_free(cache, object);
}

void run(benchmark::State& state, bool traced) {
  world_become_cpu(static_cast<unsigned>(state.thread_index()));
  static kmem_cache* const caches[] = {new_cache(false), new_cache(true)};
  pairs(state, caches[traced], kDepth);
}

void untraced(benchmark::State& state) {
  run(state, false);
}
void traced(benchmark::State& state) {
  run(state, true);
}
BENCHMARK(untraced)->Threads(1)->UseRealTime();
BENCHMARK(traced)->Threads(1)->UseRealTime();
BENCHMARK(untraced)->Threads(2)->UseRealTime();
BENCHMARK(traced)->Threads(2)->UseRealTime();

}  // namespace

int main(int argc, char** argv) {
  world_start(uint64_t{256} << 20);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
