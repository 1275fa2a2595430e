// An allocation and its free on real processors: the kernel's own source, some ten frames deep. Each worker frees the oldest of
// 256 objects of its own and allocates another.
//
// What two CPUs with one traced cache take is to be seen beside what they take when nothing is shared: two threads of this
// process, and two processes with a world of their own, in turn. Both pairs of workers are bound to the same two CPUs, start
// together and do the same number of pairs. On a machine that has other things to do a round counts only if each worker had
// its CPU nearly all the time (of processor time to elapsed time), for only then did they run at the same time.
//
// Prints a JSON object: nanoseconds of processor time for a pair, and the share, medians of the rounds that count.
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "slab.h"
#include "world.h"

namespace {

constexpr unsigned kDepth = 8;  // calls below the worker's own few
constexpr size_t kHeld = 256;
constexpr unsigned kPairs = 200'000, kRounds = 60, kEnough = 5;
constexpr double kHadCpu = 0.97;

// Of a round, in this order.
enum Phase : unsigned { kUntraced, kTraced, kTwoThreads, kTwoProcesses, kPhases };
constexpr unsigned kWorkersOf[kPhases] = {1, 1, 2, 2};

struct Timing {
  double nanoseconds;  // for a pair
  double had_cpu;
};
// What all workers see.
struct Board {
  std::atomic<unsigned> arrived[kRounds][kPhases], done[kRounds][kPhases];
  Timing timings[kRounds][kPhases][2];
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

// The machine's CPU number `index` of those that this program may use.
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

// All phases of all rounds; what others do is waited for.
void work(unsigned index, bool is_thread, kmem_cache* untraced, kmem_cache* traced) {
  for (unsigned round = 0; round < kRounds; round++) {
    for (unsigned phase = 0; phase < kPhases; phase++) {
      const unsigned workers = kWorkersOf[phase];
      if (is_thread == (phase != kTwoProcesses) && index < workers) {
        std::atomic<unsigned>& arrived = board->arrived[round][phase];
        arrived++;
        while (arrived < workers) asm volatile("pause");
        board->timings[round][phase][index] = pairs(phase == kUntraced ? untraced : traced, kDepth);
        board->done[round][phase]++;
      }
      while (board->done[round][phase] < workers) usleep(100);
    }
  }
}

// A process that has a world of its own, and in it a CPU of the same number as the thread has.
pid_t start_process(unsigned index) {
  const pid_t child = fork();
  if (child != 0) return child;
  world_start(uint64_t{256} << 20);
  std::thread([index] {
    bind(index);
    world_become_cpu(index);
    kmem_cache* const untraced = new_cache(false);  // as there, so that all lies alike
    kmem_cache* const traced = new_cache(true);
    work(index, false, untraced, traced);
  }).join();
  _exit(0);
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Of the rounds in which each worker had its CPU.
struct Sums {
  std::vector<double> phases[kPhases], share;
};
Sums collect() {
  Sums sums;
  for (const auto& round : board->timings) {
    double means[kPhases] = {};
    for (unsigned phase = 0; phase < kPhases; phase++) {
      const Timing *const first = round[phase], *const end = first + kWorkersOf[phase];
      if (std::any_of(first, end, [](const Timing& timing) { return timing.had_cpu < kHadCpu; })) continue;
      for (const Timing* timing = first; timing != end; timing++) means[phase] += timing->nanoseconds / (end - first);
      sums.phases[phase].push_back(means[phase]);
    }
    if (means[kTwoThreads] > 0 && means[kTwoProcesses] > 0) {
      sums.share.push_back(means[kTwoProcesses] / means[kTwoThreads]);
    }
  }
  return sums;
}

}  // namespace

int main() {
  board = static_cast<Board*>(mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
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
  for (std::thread& thread : threads) thread.join();
  for (const pid_t process : processes) waitpid(process, nullptr, 0);
  const Sums sums = collect();
  if (sums.share.size() < kEnough) {
    fprintf(stderr, "the machine has other things to do: in %zu of %u rounds each worker had its processor\n",
            sums.share.size(), kRounds);
    return 1;
  }
  printf(
      "{\"untraced\": %.3f, \"traced\": %.3f, \"threads\": %.3f, \"processes\": %.3f, \"share\": %.3f, \"rounds\": "
      "%zu}\n",
      median(sums.phases[kUntraced]), median(sums.phases[kTraced]), median(sums.phases[kTwoThreads]),
      median(sums.phases[kTwoProcesses]), median(sums.share), sums.share.size());
  return 0;
}
