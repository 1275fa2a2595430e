// Benches: objects that one CPU allocates and another frees. Under -icount one thread executes all
// CPUs, and the time stamp counter counts the instructions of all CPUs. So a task that has nothing
// to do sleeps, which halts its CPU.
#include <algorithm>

#include "bench/bench.h"
#include "core/cpu.h"
#include "core/errstr.h"

namespace {

constexpr unsigned kBatch = 256, kRounds = 50;

// A task on another CPU, which frees the first kBatch elements of `objects` at each free_all().
class Freer {
 public:
  Freer(kmem_cache* cache, const Block<void*>& objects) : cache_(cache), objects_(objects) {}
  Result<void> start() {
    Task* const task = TRY(task_create("bench", run, this));
    task_start(task, CpuId{(number_of(cpu_id()) + 1) % cpu_count()});
    return {};
  }
  // Makes the task free the objects, and waits until it has done so. Returns the number of
  // instructions of the frees.
  uint64_t free_all() {
    become(State::kFreeing);
    return taken_;
  }
  void end() { become(State::kEnding); }

 private:
  enum class State : uint8_t { kIdle, kFreeing, kEnding };

  // Sets the state, and returns when the task is idle again.
  void become(State wanted) {
    const Guard guard(lock_);
    state_ = wanted;
    changed_.wake_all();
    changed_.wait_uninterruptible(lock_, [this] { return state_ == State::kIdle; });
  }

  static void run(void* freer) {
    task_will_exit();
    auto& self = *static_cast<Freer*>(freer);
    for (State state = State::kIdle; state != State::kEnding;) {
      {
        const Guard guard(self.lock_);
        self.changed_.wait_uninterruptible(self.lock_,
                                           [&self] { return self.state_ != State::kIdle; });
        state = self.state_;
      }
      if (state == State::kFreeing) self.taken_ = self.measure();
      const Guard guard(self.lock_);
      self.state_ = State::kIdle;
      self.changed_.wake_all();
    }
  }
  [[gnu::noinline]] uint64_t measure() const {
    const uint64_t start = tsc();
    for (unsigned i = 0; i < kBatch; i++) kmem_cache_free(cache_, objects_[i]);
    return tsc() - start;
  }

  kmem_cache* const cache_;
  const Block<void*>& objects_;
  Spinlock lock_{LockRank::kDevice};
  WaitQueue changed_;
  State state_ = State::kIdle;
  uint64_t taken_ = 0;
};

// The cost of an allocation on this CPU plus a free on the other CPU, including the loops and calls
// around them. The freed objects come back to this CPU in magazines, through the depot.
Cost remote_pairs(kmem_cache* cache, Freer& freer, const Block<void*>& objects) {
  uint64_t best = UINT64_MAX;
  for (unsigned round = 0; round < kRounds; round++) {
    uint64_t taken = 0;
    at_depth(kDepth, [&]() BENCH_INLINE {
      const uint64_t start = tsc();
      for (unsigned i = 0; i < kBatch; i++) objects[i] = take(cache);
      taken = tsc() - start;
    });
    best = std::min(best, taken + freer.free_all());
  }
  return cost_of(best, kBatch);
}

// Objects that several CPUs have allocated, kEach of them each.
class OfCpus {
 public:
  static constexpr unsigned kEach = 1000;

  OfCpus(kmem_cache* cache, unsigned cpus) : cache_(cache), count_(cpus * kEach), objects_(count_) {
    const unsigned own = number_of(cpu_id());
    for (next_ = 0; next_ < count_; next_ += kEach) {
      ASSERT(bench_in_task(allocate, this, CpuId{(own + next_ / kEach) % cpu_count()}).ok());
    }
  }
  // Frees all objects in random order. Returns the mean cost of a free.
  [[gnu::noinline]] Cost free_all() const {
    uint32_t seed = 1;
    for (unsigned i = count_; i > 1; i--) {
      seed = seed * 1664525 + 1013904223;
      std::swap(objects_[i - 1], objects_[uint64_t{seed} * i >> 32]);
    }
    return mean(count_, [this](unsigned i) BENCH_INLINE { kmem_cache_free(cache_, objects_[i]); });
  }

 private:
  static void allocate(void* argument) {
    const auto& self = *static_cast<OfCpus*>(argument);
    at_depth(kDepth, [&]() BENCH_INLINE {
      for (unsigned i = 0; i < kEach; i++) self.objects_[self.next_ + i] = take(self.cache_);
    });
  }

  kmem_cache* const cache_;
  const unsigned count_;
  const Block<void*> objects_;
  unsigned next_ = 0;
};

}  // namespace

Result<void> bench_has_two_cpus() {
  if (cpu_count() > 1) return {};
  return fail(Errno::EINVAL, "two CPUs are needed");
}

KBENCH(remote, kTaskOfTwo) {
  const BenchCache cache(64);
  const Block<void*> objects(kBatch);
  Freer freer(cache, objects);
  ASSERT(freer.start().ok());
  bench_row(remote_pairs(cache, freer, objects), "untraced_freed_by_another");
  {
    const Traced traced(cache);
    bench_row(remote_pairs(cache, freer, objects), "traced_freed_by_another");
  }
  freer.end();
}

// A CPU frees objects of some of the guest's CPUs, among them its own.
KBENCH(of_cpus, kTaskOfTwo) {
  const BenchCache cache(64);
  for (const unsigned cpus : {2u, 8u, 64u}) {
    if (cpus > cpu_count()) return;
    bench_row(OfCpus(cache, cpus).free_all(), "untraced_free_of_%u_cpus", cpus);
    const Traced traced(cache);
    bench_row(OfCpus(cache, cpus).free_all(), "traced_free_of_%u_cpus", cpus);
  }
}
