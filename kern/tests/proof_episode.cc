#include "tests/proof_episode.h"
#include "tests/cache_stats.h"

#include <iterator>
#include <string_view>

#include "arch/x86_64/smp.h"
#include "arch/x86_64/time.h"
#include "core/ktest.h"
#include "lib/format.h"

namespace proof {

namespace {

constexpr uintptr_t kArenaBase = uintptr_t{1} << 40;  // a range of integers, not memory
constexpr size_t kArenaQuantum = 64;
constexpr size_t kArenaSize = Account::kSlots * 16 * kArenaQuantum;

// Checks a cache at rest that has no live objects: its slabs agree with its counts.
void expect_sound(kmem_cache* cache) {
  EXPECT(kmem_cache_verify(cache) == nullptr);
  const struct kmem_cache_stats stats = stats_of(cache);
  EXPECT(stats.live == 0 && stats.objects_out == stats.magazine_rounds);
  EXPECT(stats.reports == 0 && stats.quarantined == 0);
}

}  // namespace

Episode::Episode(uint64_t seed) {
  random_.seed(seed);
  workload.pause = workload.stop = false;
  workload.paused = workload.next_worker = workload.next_reader = 0;
  workload.chosen = nullptr;
  for (Actor& actor : workload.workers) {
    actor = {};
    actor.random.seed(random_.next());
  }
  for (Actor& actor : workload.interrupt_actors) {
    actor = {};
    actor.random.seed(random_.next());
    actor.in_interrupt = true;
  }
  for (Random& random : faults.random) random.seed(random_.next());
  faults.controller = current_task();
  size_t own = 0;
  for (kmem_cache* cache = kmem_cache_next(nullptr); cache; cache = kmem_cache_next(cache)) {
    const bool is_own = (kmem_cache_flags(cache) & KMC_NOTRACE) &&
                        std::string_view(kmem_cache_name(cache)).starts_with("kmem_");
    if (is_own && own < std::size(faults.own_caches))
      faults.own_caches[own++] = cache;  // these caches are never destroyed
  }
  const auto add_cache = [](unsigned index, const char* name, uint32_t size, int flags) {
    kmem_cache* cache = kmem_cache_create(name, size, 0, flags, nullptr, nullptr, nullptr, nullptr);
    ASSERT(cache);
    kmem_cache_hold(cache);
    accounts[index].open(cache, nullptr, size, {}, 0);
    faults.sources[index] = cache;
  };
  add_cache(0, "proof_small", 48, 0);
  add_cache(1, "proof_large", 700, KMC_NOTOUCH);
  // Quantum caches serve half of the possible sizes.
  struct arena* arena = arena_create("proof_arena", kArenaBase, kArenaSize, kArenaQuantum, nullptr,
                                     nullptr, nullptr, 4 * kArenaQuantum, KM_SLEEP);
  ASSERT(arena);
  accounts[2].open(arena, arena, 8 * kArenaQuantum, {}, 0);
  faults.sources[2] = arena;
  renew_cache();
  workload.interrupts = true;
  on_each_cpu(
      [](void*) {
        Timer& timer = workload.timers[number_of(cpu_id())];
        timer.callback = on_timer;
        timer_arm(timer, monotonic_now());
      },
      nullptr);
  for (unsigned i = 0; i < kWorkers; i++) team_.add();
  for (unsigned i = 0; i < kReaders; i++) readers_.add();
  for (unsigned i = 0; i < kSweepers; i++) sweepers_.add();
}

// Ends all actors, and frees all objects, caches and the arena.
Episode::~Episode() {
  if (faults.on) kmem_inject_end();
  faults.on = false;
  faults.caches_one_in = faults.pages_one_in = 0;
  workload.stop = true;
  team_.join();
  readers_.join();
  sweepers_.join();
  workload.interrupts = false;
  for (unsigned i = 0; i < cpu_count(); i++) timer_cancel(workload.timers[i]);
  on_each_cpu([](void*) {}, nullptr);
  Actor& actor = workload.workers[0];
  for (Account& account : accounts) {
    if (!account.is_open()) continue;
    account.release_all(actor);
    EXPECT(account.source().live() == 0);
    kmem_cache* const cache = account.source().cache();
    if (cache && !kmem_cache_is_zombie(cache)) expect_sound(cache);
  }
  char limit[40];
  format(limit, sizeof(limit), "stop\nreset\nlimit %lu\n", usual_limit_);
  EXPECT(trace_command_all(limit).ok());
  for (unsigned i = 0; i < kAccounts; i++) {
    Account& account = accounts[i];
    if (!account.is_open()) continue;
    struct arena* const arena = account.source().arena();
    kmem_cache* const cache = account.source().cache();
    if (cache && !kmem_cache_is_zombie(cache)) kmem_cache_destroy(cache);
    account.close();
    if (arena) arena_destroy(arena);
    faults.sources[i] = nullptr;
  }
  for (Actor& each : workload.workers) each = {};
  for (Actor& each : workload.interrupt_actors) each = {};
  EXPECT(workload.bad_dumps == 0);
  EXPECT(trace_memory_used() == 0);
}

uint64_t Episode::sum(uint64_t Actor::*count) const {
  uint64_t sum = 0;
  for (const Actor& actor : workload.workers) sum += actor.*count;
  for (const Actor& actor : workload.interrupt_actors) sum += actor.*count;
  return sum;
}

bool Episode::round() {
  for (unsigned n = 1 + random_.below(6); n > 0 && good_; n--) {
    do_something();
    for (unsigned i = random_.below(4); i > 0; i--) task_yield();
    if (random_.one_in(3)) {
      static_cast<void>(task_sleep_until(monotonic_now() + Nanoseconds{random_.below(6'000'000)}));
    }
  }
  pause();
  good_ &= compare();
  resume();
  return good_;
}

void Episode::pause() {
  workload.pause = true;
  while (workload.paused != kWorkers + kReaders) task_yield();
  workload.interrupts = false;
  for (unsigned i = 0; i < cpu_count(); i++) timer_cancel(workload.timers[i]);
  faults.none = true;
  on_each_cpu([](void*) {}, nullptr);
}

void Episode::resume() {
  faults.none = false;
  workload.interrupts = true;
  on_each_cpu([](void*) { timer_arm(workload.timers[number_of(cpu_id())], monotonic_now()); },
              nullptr);
  workload.pause = false;
  while (workload.paused != 0) task_yield();
}

bool Episode::compare() {
  unsigned differences = workload.bad_dumps;
  for (Account& account : accounts) {
    if (account.is_open()) differences += account.compare(hash_);
  }
  for (const Actor& actor : workload.workers) hash_.add(actor.hash.value());
  for (const Actor& actor : workload.interrupt_actors) hash_.add(actor.hash.value());
  // A destroyed cache without live objects needs no further comparison.
  for (unsigned i = kLastingAccounts; i < kAccounts; i++) {
    if (!accounts[i].is_open() || accounts[i].may_allocate() || accounts[i].live() > 0) continue;
    accounts[i].close();
    faults.sources[i] = nullptr;
  }
  return differences == 0;
}

void Episode::do_something() {
  switch (random_.below(16)) {
    case 0:
      kmem_reap();
      return;
    case 1:
      on_each_cpu([](void*) { kmem_drain_cpu(); }, nullptr);
      return;
    case 2:
      renew_cache();
      return;
    case 3:
    case 4:
      change_faults();
      return;
    case 5:
      change_limit();
      return;
    case 6:
      change_checking();
      return;
    case 7:
      end_chosen_trace();
      return;
    default:
      command();
  }
}

// Destroys the temporary cache, even if it is traced or has live objects, and creates a new cache
// with the same name. Does nothing if no account is free.
void Episode::renew_cache() {
  Account* free_account = nullptr;
  for (unsigned i = kLastingAccounts; i < kAccounts; i++) {
    Account& account = accounts[i];
    if (!account.is_open()) free_account = &account;
  }
  if (!free_account) return;
  for (unsigned i = kLastingAccounts; i < kAccounts; i++) {
    Account& account = accounts[i];
    if (!account.is_open() || !account.may_allocate()) continue;
    account.forbid_allocations();
    kmem_cache_destroy(account.source().cache());
  }
  kmem_cache* cache =
      kmem_cache_create("proof_renewed", 200, 0, 0, nullptr, nullptr, nullptr, nullptr);
  if (!cache) return;  // the creation failed because of an injected failure
  kmem_cache_hold(cache);
  faults.sources[free_account - accounts] = cache;
  // If traces of all sources were started (others_) and there is memory, the new cache is traced
  // from its first object on.
  const bool traced = others_.state.phase == TracePhase::kRunning &&
                      !(lossy_ && !(kmem_cache_flags(cache) & KMC_TRACED));
  State state;
  state.lossy = lossy_;
  if (traced) {
    state.phase = TracePhase::kRunning;
    state.options = others_.state.options;
    state.generation = 1;
  }
  free_account->open(cache, nullptr, 200, state, traced ? others_.mark : 0);
}

void Episode::set_lossy() {
  const bool lossy = low_limit_ || pages_fail_;
  if (lossy == lossy_) return;
  lossy_ = lossy;
  for (Account& account : accounts) {
    if (!account.is_open()) continue;
    State state = account.state();
    state.lossy = lossy;
    account.begin_change(state.generation);
    account.end_change(state);
  }
}

void Episode::change_faults() {
  const bool fail_caches = random_.one_in(2), fail_pages = random_.one_in(2);
  if (fail_pages) {
    pages_fail_ = true;
    set_lossy();
  }
  faults.caches_one_in = fail_caches ? 2 + random_.below(60) : 0;
  faults.pages_one_in = fail_pages ? 1 + random_.below(10) : 0;
  const bool wanted = fail_caches || fail_pages;
  if (wanted && !faults.on) EXPECT(kmem_inject_begin(shall_fail));
  if (!wanted && faults.on) kmem_inject_end();
  faults.on = wanted;
  if (!fail_pages) {
    on_each_cpu([](void*) {}, nullptr);
    pages_fail_ = false;
    set_lossy();
  }
}

void Episode::change_limit() {
  if (!low_limit_) {
    low_limit_ = true;
    set_lossy();
  }
  char text[40];
  const bool usual = random_.one_in(2);
  format(text, sizeof(text), "limit %lu\n",
         usual ? usual_limit_ : 4096 * (1 + uint64_t{random_.below(200)}));
  EXPECT(trace_command_all(text).ok());
  if (!usual) return;
  on_each_cpu([](void*) {}, nullptr);
  low_limit_ = false;
  set_lossy();
}

// Switches run-time checking of a random cache on or off. Existing objects stay checked or
// unchecked until they are freed. No check may report an error.
void Episode::change_checking() {
  Account& account = accounts[random_.below(kAccounts)];
  if (!account.is_open() || !account.may_allocate()) return;
  kmem_cache* const cache = account.source().cache();
  if (!cache || (kmem_cache_flags(cache) & KMC_NOTOUCH)) return;
  if (random_.one_in(2)) {
    kmem_cache_check_start(cache);
  } else {
    kmem_cache_check_stop(cache);
  }
  good_ &= kmem_cache_check_scan(cache) == 0;
}

}  // namespace proof
