// Proves that a dump of the tracer shows exactly the live objects. The test keeps an account of the
// live objects without the tracer (proof_account.h), and compares the dumps with the account under
// a load of many different events at the same time.
//
// The actors are of three types: tasks, which the scheduler moves between CPUs; interrupts that
// CPUs send to themselves; and timers. Half of the tasks act as threads of processes. The actors
// allocate from three caches and an arena, and free each other's objects. One of the caches is
// destroyed and recreated while it is traced. Meanwhile the controller gives commands to one source
// or to all sources: `start` with and without filters, `stop`, `reset` and `mark`. A seed
// determines the commands. The controller also reaps, switches run-time checking on and off, sets
// the limit of trace memory, and makes allocations of objects, slabs and trace pages fail. Other
// tasks read dumps, and another one sweeps stacks and contexts all the time. After each round all
// actors pause, and the trace of each source is compared with its account.
//
// A test consists of episodes. Each episode creates new caches and a new arena, and its seed is the
// seed of the previous episode plus 1. Under --icount an episode repeats exactly; the printed hash
// of its events shows this. The kernel command line may set `seed=N` (the first seed), `rounds=N`
// (the number of rounds of all episodes; an episode has at most 20), or `minutes=N` (the duration
// of the test). A difference ends the test, and the test prints the command that replays the
// episode.
//
// The workers are in proof_workload.cc, the controller in proof_episode.cc, its commands in
// proof_commands.cc.
#include <algorithm>

#include "arch/x86_64/time.h"
#include "core/cpu.h"
#include "core/ktest.h"
#include "tests/proof_episode.h"
#include "tests/proof_workload.h"

namespace {

constexpr uint64_t kDefaultSeed = 20240229;
constexpr unsigned kRoundsOfEpisode = 20;
constexpr unsigned kUsualRounds = 20;
// The variant of this kernel, for the command that replays an episode.
#ifdef CONFIG_PLANTED_BUGS
constexpr const char* kVariant = "debug";
#elif defined(CONFIG_KASAN)
constexpr const char* kVariant = "sanitize";
#else
constexpr const char* kVariant = "proof";
#endif

// Sums over all episodes.
struct Sums {
  uint64_t events = 0, remote_frees = 0, taken_again = 0;
};

// Runs one episode. False if there was a difference.
bool run_episode(uint64_t seed, unsigned rounds, Sums& sums) {
  unsigned round = 0;
  bool good = true;
  uint64_t hash = 0;
  {
    proof::Episode episode(seed);
    while (good && round < rounds) {
      good = episode.round();
      round++;
    }
    if (!good) episode.print_history();
    hash = episode.hash();
    sums.events += episode.sum(&proof::Actor::events);
    sums.remote_frees += episode.sum(&proof::Actor::remote_frees);
    sums.taken_again += episode.sum(&proof::Actor::taken_again);
  }
  klog("proof: seed=%lu rounds=%u cpus=%u: hash %016lx%s", seed, round, cpu_count(), hash,
       good ? "" : ", DIFFERENCES");
  if (good) return true;
  klog(
      "proof: to replay it: scripts/guest --variant %s --icount --smp %u --ktest=proof --cmdline "
      "'seed=%lu rounds=%u'",
      kVariant, cpu_count(), seed, rounds);
  return false;
}

}  // namespace

KTEST(trace_proof) {
  static bool registered =
      interrupt_register_vector(proof::kVector, "proof", proof::on_interrupt, nullptr).ok();
  EXPECT(registered);
  const uint64_t first_seed = ktest_option("seed", kDefaultSeed);
  const uint64_t minutes = ktest_option("minutes", 0);
  const uint64_t rounds = ktest_option("rounds", kUsualRounds);
  const Nanoseconds end = monotonic_now() + Nanoseconds{minutes * 60'000'000'000};
  EXPECT(trace_command_all("settle").ok());
  uint64_t done = 0;
  Sums sums;
  for (uint64_t seed = first_seed; minutes > 0 ? monotonic_now() < end : done < rounds; seed++) {
    const auto now = static_cast<unsigned>(
        minutes > 0 ? kRoundsOfEpisode : std::min<uint64_t>(kRoundsOfEpisode, rounds - done));
    const bool good = run_episode(seed, now, sums);
    EXPECT(good);
    if (!good) break;
    done += now;
  }
  klog("proof: %lu rounds, %lu events, %lu dumps and %lu snapshots read meanwhile, %lu sweeps",
       done, sums.events, proof::workload.dumps.load(), proof::workload.snapshots.load(),
       proof::workload.sweeps.load());
  klog(
      "proof: at least %lu frees by another CPU, after %lu of which the address was the next to be "
      "allocated",
      sums.remote_frees, sums.taken_again);
}
