// Measures the cost of a pair (an allocation and a free) on real processors, with the kernel's own
// source and a stack of some ten frames.
//
// A worker is a thread that makes pairs. It holds 256 objects; in each pair it frees the oldest
// object and allocates another. There are four benchmarks:
//   untraced   one worker
//   traced     one worker
//   threads    two workers that share a traced cache: threads of this process
//   processes  two workers that share nothing: each is in a process with its own allocator
//
// In a round, each worker of one benchmark makes kPairs pairs; two workers begin together. All
// workers exist from the beginning and wait for their rounds. The two threads run on the same two
// CPUs as the two processes.
//
// Google Benchmark starts the rounds and prints their results; to it, a round is a repetition of a
// benchmark, with one iteration. The time of a round is the processor time for one pair, the mean
// over the workers. The counter `had_cpu` is processor time divided by elapsed time, the smallest
// over the workers. On a busy machine a worker may lose its CPU, and then two workers do not run at
// the same time. So bench.py counts only rounds whose had_cpu is near 1.
#include <benchmark/benchmark.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include "slab.h"
#include "world.h"

namespace {

constexpr unsigned kDepth = 8;  // pairs() calls itself this many times before it makes pairs
constexpr size_t kHeld = 256;
// A round takes about half a millisecond, so that on a shared machine most rounds are not
// preempted.
constexpr unsigned kPairs = 12'000, kRounds = 200;

// The benchmarks.
enum Phase : unsigned { kUntraced, kTraced, kTwoThreads, kTwoProcesses, kPhases };
constexpr const char* kNames[kPhases] = {"untraced", "traced", "threads", "processes"};
constexpr unsigned kWorkersOf[kPhases] = {1, 1, 2, 2};

struct Timing {
  double nanoseconds;  // processor time of a pair
  double had_cpu;      // processor time / elapsed time
};
// Shared by all workers, of all processes.
struct Board {
  std::atomic<unsigned> rounds[kPhases];  // for each phase: the number of started rounds
  // For each phase: the rounds that workers have begun, and have finished, summed over the workers.
  std::atomic<unsigned> arrived[kPhases], done[kPhases];
  Timing timings[kPhases][2];  // for each phase and worker: the worker's last round
  std::atomic<bool> over;
};
Board* board;

kmem_cache* new_cache(bool traced) {
  kmem_cache* cache = kmem_cache_create("bench", 64, 0, 0, nullptr, nullptr, nullptr, nullptr);
  if (!cache) abort();
  if (traced) world_trace(cache);
  return cache;
}

double now(clockid_t clock) {
  timespec time;
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) * 1e9 + static_cast<double>(time.tv_nsec);
}

// Binds the worker to the CPU with number `index` among the CPUs that this program may use.
void bind(unsigned index) {
  cpu_set_t allowed, one;
  sched_getaffinity(getpid(), sizeof(allowed), &allowed);
  CPU_ZERO(&one);
  for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
    if (CPU_ISSET(cpu, &allowed) && index-- == 0) CPU_SET(cpu, &one);
  }
  if (sched_setaffinity(0, sizeof(one), &one) != 0) {
    fprintf(stderr, "two processors are needed\n");
    exit(2);
  }
}

[[gnu::noinline]] Timing pairs(kmem_cache* cache, unsigned depth) {
  if (depth > 0) {
    const Timing timing = pairs(cache, depth - 1);
    asm volatile("");
    return timing;
  }
  static thread_local void* held[kHeld];
  for (void*& object : held) object = kmem_cache_alloc(cache, KM_ATOMIC);
  const double cpu = now(CLOCK_THREAD_CPUTIME_ID), start = now(CLOCK_MONOTONIC);
  for (unsigned i = 0; i < kPairs; i++) {
    void*& oldest = held[i % kHeld];
    kmem_cache_free(cache, oldest);
    oldest = kmem_cache_alloc(cache, KM_ATOMIC);
  }
  const double elapsed = now(CLOCK_MONOTONIC) - start, used = now(CLOCK_THREAD_CPUTIME_ID) - cpu;
  for (void* object : held) kmem_cache_free(cache, object);
  return {used / kPairs, used / elapsed};
}

// Runs a worker until all benchmarks have ended. If `is_thread`, the worker takes part in the
// rounds of the first three phases, otherwise in the rounds of kTwoProcesses.
[[gnu::noinline]] void work(unsigned index, bool is_thread, kmem_cache* untraced,
                            kmem_cache* traced) {
  const StackBegin begin(__builtin_frame_address(0));
  std::array<unsigned, kPhases> rounds = {};
  for (; !board->over; usleep(100)) {
    for (unsigned phase = 0; phase < kPhases; phase++) {
      const unsigned workers = kWorkersOf[phase];
      if (is_thread != (phase != kTwoProcesses) || index >= workers ||
          board->rounds[phase] == rounds[phase])
        continue;
      rounds[phase]++;
      board->arrived[phase]++;
      while (board->arrived[phase] < rounds[phase] * workers) asm volatile("pause");
      board->timings[phase][index] = pairs(phase == kUntraced ? untraced : traced, kDepth);
      board->done[phase]++;
    }
  }
}

// Starts a process with its own allocator and tracer (world_start) and with one worker. The worker
// runs on the same CPU as the thread with the same `index`.
pid_t start_process(unsigned index) {
  const pid_t child = fork();
  if (child != 0) return child;
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // so that the child also ends if the parent is killed
  world_start(uint64_t{256} << 20);
  std::thread([index] {
    bind(index);
    world_become_cpu(index);
    kmem_cache* const untraced = new_cache(false);  // gives the same memory layout as in the parent
    kmem_cache* const traced = new_cache(true);
    work(index, false, untraced, traced);
  }).join();
  _exit(0);
}

void round(benchmark::State& state, Phase phase) {
  const unsigned workers = kWorkersOf[phase];
  double least = 1;
  while (state.KeepRunning()) {
    const unsigned rounds = ++board->rounds[phase];
    while (board->done[phase] < rounds * workers) usleep(100);
    double sum = 0;
    for (unsigned index = 0; index < workers; index++) {
      const Timing& timing = board->timings[phase][index];
      sum += timing.nanoseconds;
      least = std::min(least, timing.had_cpu);
    }
    state.SetIterationTime(sum / workers * 1e-9);
  }
  state.counters["had_cpu"] = least;
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  board = static_cast<Board*>(
      mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  if (board == MAP_FAILED) return 2;
  const pid_t processes[] = {start_process(0), start_process(1)};
  world_start(uint64_t{256} << 20);
  kmem_cache* const untraced = new_cache(false);
  kmem_cache* const traced = new_cache(true);
  std::vector<std::thread> threads;
  for (unsigned index = 0; index < 2; index++) {
    threads.emplace_back([=] {
      bind(index);
      world_become_cpu(index);
      work(index, true, untraced, traced);
    });
  }
  for (unsigned phase = 0; phase < kPhases; phase++) {
    benchmark::RegisterBenchmark(kNames[phase], round, static_cast<Phase>(phase))
        ->UseManualTime()
        ->Iterations(1)
        ->Repetitions(kRounds);
  }
  benchmark::RunSpecifiedBenchmarks();
  board->over = true;
  for (std::thread& thread : threads) thread.join();
  for (const pid_t process : processes) waitpid(process, nullptr, 0);
  return 0;
}
