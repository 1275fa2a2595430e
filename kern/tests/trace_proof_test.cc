// The proof of the tracer's promise: what a dump says is compared with an account of what is live that is kept without the
// tracer (proof_account.h), while everything happens at once.
//
// Tasks that the scheduler moves about, interrupts that CPUs send themselves, and timers allocate from and free to two
// caches, an arena, and a third cache that is destroyed and made afresh while it is traced, and whatever of each other's
// they find. Meanwhile the controller, from a seed, starts with and without filters, stops, resets and marks, one source
// or all that there are; reaps; switches checking on and off; sets the limit of trace memory; makes allocations, slabs and
// trace pages fail; and readers open dumps. After each round all stand still and every source is compared.
//
// An episode is a fresh beginning with a seed of its own; the next one has the next seed. Under --icount an episode repeats
// exactly: its events make a number that is printed. On the command line: `seed=N`, `rounds=N` (rounds in all, 20 for an
// episode), or `minutes=N`. A difference is printed with the command that replays it, and ends the test.
#include <algorithm>
#include <atomic>

#include "arch/x86_64/interrupts.h"
#include "arch/x86_64/smp.h"
#include "arch/x86_64/time.h"
#include "arch/x86_64/trap.h"
#include "boot.h"
#include "cpu.h"
#include "ktest.h"
#include "lib/format.h"
#include "proof_account.h"
#include "src/trace/trace_memory.h"
#include "team.h"
#include "timer.h"

namespace {

using proof::Account;
using proof::Actor;
using proof::Hash;
using proof::number_after;
using proof::Random;
using proof::State;

constexpr uint64_t kDefaultSeed = 20240229;
constexpr unsigned kRoundsOfEpisode = 20;
constexpr unsigned kUsualRounds = 20;
constexpr unsigned kWorkers = 8;
constexpr unsigned kReaders = 2;
constexpr unsigned kAccounts = 7;
constexpr unsigned kLastingAccounts = 3;              // the others are for caches that come and go
constexpr uintptr_t kArenaBase = uintptr_t{1} << 40;  // of integers, no memory
constexpr size_t kArenaQuantum = 64;
constexpr size_t kArenaSize = Account::kSlots * 16 * kArenaQuantum;
constexpr uint8_t kVector = 0xf1;
constexpr uint32_t kFirstPid = 30'000;  // that workers take on

// `name=N` on the command line.
uint64_t option(const char* name, uint64_t otherwise) {
  size_t length = 0;
  const char* digits = boot_option(name, &length);
  uint64_t value = 0;
  for (size_t i = 0; i < length && digits[i] >= '0' && digits[i] <= '9'; i++) {
    value = value * 10 + static_cast<uint64_t>(digits[i] - '0');
  }
  return length > 0 ? value : otherwise;
}

constinit Account accounts[kAccounts];

// --- Those who allocate and free.

struct Workload {
  std::atomic<bool> pause{false}, stop{false}, interrupts{false};
  std::atomic<unsigned> paused{0};
  std::atomic<unsigned> next_worker{0}, next_reader{0};
  Actor workers[kWorkers];
  Actor interrupt_actors[kMaxCpus];
  Timer timers[kMaxCpus] = {};
  std::atomic<unsigned> bad_dumps{0};
  std::atomic<uint64_t> dumps{0};
};
constinit Workload workload;

void act_somewhere(Actor& actor, bool prefers_to_free) {
  accounts[actor.random.below(kAccounts)].act(actor, prefers_to_free);
}

void on_interrupt(TrapFrame&, void*) {
  if (!workload.interrupts) return;
  Actor& actor = workload.interrupt_actors[cpu_id()];
  for (unsigned n = 1 + actor.random.below(3); n > 0; n--) act_somewhere(actor, actor.random.one_in(2));
}

void on_timer(void*) {
  if (!workload.interrupts) return;
  Actor& actor = workload.interrupt_actors[cpu_id()];
  for (unsigned n = 1 + actor.random.below(20); n > 0; n--) act_somewhere(actor, actor.random.one_in(2));
  timer_arm(workload.timers[cpu_id()], monotonic_now() + Nanoseconds{1 + actor.random.below(8'000'000)});
}

void rest_while_paused() {
  if (!workload.pause) return;
  workload.paused++;
  while (workload.pause) task_yield();
  workload.paused--;
}

// In bursts, so that magazines go to the depot and come back, slabs fill and empty.
void worker(void*) {
  const unsigned number = workload.next_worker.fetch_add(1);
  Actor& actor = workload.workers[number];
  current_task()->pid = number % 2 ? kFirstPid + number / 2 % 2 : 0;
  Random& random = actor.random;
  while (!workload.stop) {
    rest_while_paused();
    const unsigned favours_free = random.below(4);
    for (unsigned n = random.below(60); n > 0 && !workload.pause; n--) {
      act_somewhere(actor, random.below(4) < favours_free);
      if (random.one_in(24)) interrupt_raise_self(kVector);
    }
    if (random.one_in(2)) task_yield();
    if (random.one_in(32)) static_cast<void>(task_sleep_until(monotonic_now() + Nanoseconds{random.below(5'000'000)}));
  }
  current_task()->pid = 0;
}

// Opens a dump, looks at the identities, and reads on to the end.
void read_dump(Account& account) {
  Result<TraceDump*> dump = trace_dump_open(account.source());
  if (!dump) return;  // out of trace memory: trace_users_add
  char text[1024];
  uint64_t offset = 0;
  while (const size_t size = trace_dump_read(*dump, text, sizeof(text), offset).take()) {
    const std::string_view head(text, size);
    if (offset == 0 && head.find("\nseen ") != std::string_view::npos) {
      const auto value = [&](std::string_view key) { return number_after(head, key); };
      workload.dumps++;
      if (value("\nseen ") != value(" recorded ") + value(" dropped ") + value(" filtered ") ||
          value(" recorded ") != value(" freed ") + value(" cleared ") + value(" live ")) {
        workload.bad_dumps++;
        klog("proof: a dump whose counters do not add up: %.*s", 160, text);
      }
    }
    offset += size;
    rest_while_paused();
  }
  trace_dump_close(*dump);
}

void reader(void*) {
  Random random;
  random.seed(workload.next_reader.fetch_add(1));
  while (!workload.stop) {
    rest_while_paused();
    Account& account = accounts[random.below(kAccounts)];
    if (account.hold()) {
      read_dump(account);
      account.drop();
    }
    static_cast<void>(task_sleep_until(monotonic_now() + Nanoseconds{random.below(4'000'000)}));
  }
}

// --- Faults.

struct Faults {
  Random random[kMaxCpus];
  std::atomic<uint32_t> caches_one_in{0};  // of the accounts' allocations
  std::atomic<uint32_t> pages_one_in{
      0};                         // of the tracer's pages, and of what the slabs and magazines of all caches live on
  std::atomic<bool> none{false};  // while there is comparing
  // For its commands memory fails only where it is the tracer\'s: then it is known how far they got.
  std::atomic<const Task*> controller{nullptr};
  std::atomic<void*> sources[kAccounts] = {};
  kmem_cache* own_caches[16] = {};
  bool on = false;  // the controller's
};
constinit Faults faults;

int shall_fail(kmem_fault_site site, const void* source, size_t, int flags) {
  const bool is_page_of_trace = site == KMEM_FAULT_TRACE && !(flags & KM_SLEEP);
  if (faults.none || (!is_page_of_trace && current_task() == faults.controller)) return 0;
  uint32_t one_in = 0;
  const auto is_one_of = [source](const auto& known) {
    return std::find(std::begin(known), std::end(known), source) != std::end(known);
  };
  if (site == KMEM_FAULT_TRACE || is_one_of(faults.own_caches)) {
    one_in = faults.pages_one_in;
  } else if (is_one_of(faults.sources)) {
    one_in = faults.caches_one_in;
  }
  return one_in != 0 && faults.random[cpu_id()].one_in(one_in);
}

// --- The controller.

struct Line {
  TraceWord word;
  TraceOptions options;
};

// The last commands and what came of them, for who looks for the cause of a difference.
class History {
 public:
  void add(const char* name, std::string_view text, int error) {
    char* entry = entries_[count_++ % kEntries];
    format(entry, kLength, "%s: %.*s: error %d", name, static_cast<int>(text.size()), text.data(), error);
    for (; *entry; entry++) {
      if (*entry == '\n') *entry = ';';
    }
  }
  void print() const {
    for (unsigned i = count_ > kEntries ? count_ - kEntries : 0; i < count_; i++) {
      klog("proof: command %u: %s", i, entries_[i % kEntries]);
    }
  }

 private:
  static constexpr unsigned kEntries = 12, kLength = 160;
  char entries_[kEntries][kLength] = {};
  unsigned count_ = 0;
};

class Episode {
 public:
  explicit Episode(uint64_t seed);
  ~Episode();
  // False if there was a difference.
  bool round();
  uint64_t hash() const { return hash_.value(); }
  uint64_t events() const;
  void print_history() const { history_.print(); }

 private:
  struct Model {
    State state;
    uint32_t mark = 0;
  };

  void do_something();
  void command();
  Line random_line(bool may_start);
  static Errno apply(Model& model, const Line& line, bool passes_over);
  void give(std::span<const Line> lines, Account* one);
  void renew_cache();
  void change_faults();
  void change_limit();
  void change_checking();
  void set_lossy();
  void pause();
  void resume();
  bool compare();

  Random random_;
  Hash hash_;
  Team team_{worker, nullptr};
  Team readers_{reader, nullptr};
  State others_;  // of all sources that have no account
  const uint64_t usual_limit_ = trace_memory_limit();
  bool low_limit_ = false;
  bool pages_fail_ = false;
  bool lossy_ = false;
  bool good_ = true;
  History history_;
};

uint64_t word_hash(std::span<const Line> lines) {
  Hash hash;
  for (const Line& line : lines) hash.add(static_cast<uint64_t>(line.word));
  return hash.value();
}

Episode::Episode(uint64_t seed) {
  random_.seed(seed);
  workload.pause = workload.stop = false;
  workload.paused = workload.next_worker = workload.next_reader = 0;
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
    const bool is_own =
        (kmem_cache_flags(cache) & KMC_NOTRACE) && std::string_view(kmem_cache_name(cache)).starts_with("kmem_");
    if (is_own && own < std::size(faults.own_caches)) faults.own_caches[own++] = cache;  // they are there for ever
  }
  const auto add_cache = [](unsigned index, const char* name, uint32_t size, int flags) {
    kmem_cache* cache = kmem_cache_create(name, size, 0, flags, nullptr, nullptr, nullptr, nullptr);
    ASSERT(cache);
    kmem_cache_hold(cache);
    accounts[index].open(cache, nullptr, size, false);
    faults.sources[index] = cache;
  };
  add_cache(0, "proof_small", 48, 0);
  add_cache(1, "proof_large", 700, KMC_NOTOUCH);
  // Half of the sizes are served by quantum caches.
  struct arena* arena = arena_create("proof_arena", kArenaBase, kArenaSize, kArenaQuantum, nullptr, nullptr, nullptr,
                                     4 * kArenaQuantum, KM_SLEEP);
  ASSERT(arena);
  accounts[2].open(arena, arena, 8 * kArenaQuantum, false);
  faults.sources[2] = arena;
  renew_cache();
  workload.interrupts = true;
  on_each_cpu(
      [](void*) {
        Timer& timer = workload.timers[cpu_id()];
        timer.callback = on_timer;
        timer_arm(timer, monotonic_now());
      },
      nullptr);
  for (unsigned i = 0; i < kWorkers; i++) team_.add();
  for (unsigned i = 0; i < kReaders; i++) readers_.add();
}

// All is given back.
Episode::~Episode() {
  if (faults.on) kmem_faults_end();
  faults.on = false;
  faults.caches_one_in = faults.pages_one_in = 0;
  workload.stop = true;
  team_.join();
  readers_.join();
  workload.interrupts = false;
  for (unsigned i = 0; i < cpu_count(); i++) timer_cancel(workload.timers[i]);
  on_each_cpu([](void*) {}, nullptr);
  Actor& actor = workload.workers[0];
  for (Account& account : accounts) {
    if (!account.is_open()) continue;
    account.release_all(actor);
    EXPECT(account.source().live() == 0);
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
  EXPECT(workload.bad_dumps == 0);
  EXPECT(trace_memory_used() == 0);
}

uint64_t Episode::events() const {
  uint64_t sum = 0;
  for (const Actor& actor : workload.workers) sum += actor.events;
  for (const Actor& actor : workload.interrupt_actors) sum += actor.events;
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
  on_each_cpu([](void*) { timer_arm(workload.timers[cpu_id()], monotonic_now()); }, nullptr);
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
  // A zombie whose objects are all back has been looked at for the last time.
  for (unsigned i = kLastingAccounts; i < kAccounts; i++) {
    if (!accounts[i].is_open() || accounts[i].may_allocate() || accounts[i].live() > 0) continue;
    // A reader that rests in the middle of a dump would be waited for in vain.
    if (!accounts[i].is_held()) {
      accounts[i].close();
      faults.sources[i] = nullptr;
    }
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
    default:
      command();
  }
}

// The cache that comes and goes: the one there is ends, with what is live, and traced as it is; another of its name is made.
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
  kmem_cache* cache = kmem_cache_create("proof_renewed", 200, 0, 0, nullptr, nullptr, nullptr, nullptr);
  if (!cache) return;  // of the faults
  kmem_cache_hold(cache);
  faults.sources[free_account - accounts] = cache;
  free_account->open(cache, nullptr, 200, lossy_);
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
  if (wanted && !faults.on) EXPECT(kmem_faults_begin(shall_fail));
  if (!wanted && faults.on) kmem_faults_end();
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
  format(text, sizeof(text), "limit %lu\n", usual ? usual_limit_ : 4096 * (1 + uint64_t{random_.below(200)}));
  EXPECT(trace_command_all(text).ok());
  if (!usual) return;
  on_each_cpu([](void*) {}, nullptr);
  low_limit_ = false;
  set_lossy();
}

// Objects that were taken before are checked or not until they come back; nothing is ever found.
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

Line Episode::random_line(bool may_start) {
  Line line = {TraceWord::kMark, {}};
  const uint32_t kind = random_.below(8);
  if (kind < 3 && may_start) {
    line.word = TraceWord::kStart;
    if (random_.one_in(2)) line.options.depth = 1 + random_.below(random_.one_in(2) ? 64 : 4);
    if (random_.one_in(4)) line.options.min_size = random_.below(60);
    if (random_.one_in(4)) line.options.max_size = line.options.min_size + random_.below(300);
    if (random_.one_in(4)) line.options.pid = kFirstPid + random_.below(2);
    if (random_.one_in(6)) line.options.sample = 1 + random_.below(2000);
  } else if (kind < 5) {
    line.word = TraceWord::kStop;
  } else if (kind < 6) {
    line.word = TraceWord::kReset;
  }
  return line;
}

// One to three lines, for one source or for all.
void Episode::command() {
  Line lines[3];
  const unsigned count = random_.one_in(2) ? 1 : 1 + random_.below(3);
  bool may_start = true;
  for (unsigned i = 0; i < count; i++) {
    lines[i] = random_line(may_start);
    if (lines[i].word == TraceWord::kStart) may_start = false;
  }
  Account* one = nullptr;
  if (!random_.one_in(4)) {
    one = &accounts[random_.below(kAccounts)];
    if (!one->is_open()) return;
  }
  give({lines, count}, one);
}

// What a line does to a trace.
Errno Episode::apply(Model& model, const Line& line, bool passes_over) {
  State& state = model.state;
  switch (line.word) {
    case TraceWord::kStart:
      if (state.phase == TracePhase::kRunning) return state.options == line.options ? Errno{} : Errno::EBUSY;
      // The records that are kept are scaled by one rate.
      if (state.phase == TracePhase::kStopped && state.options.sample != line.options.sample) return Errno::EBUSY;
      if (state.phase == TracePhase::kOff) {
        state.generation++;
        model.mark = 0;
      }
      state.phase = TracePhase::kRunning;
      state.options = line.options;
      return {};
    case TraceWord::kStop:
      if (state.phase == TracePhase::kRunning) state.phase = TracePhase::kStopped;
      return {};
    case TraceWord::kReset:
      if (state.phase == TracePhase::kRunning) state.resets++;
      if (state.phase == TracePhase::kStopped) state.phase = TracePhase::kOff;
      return {};
    case TraceWord::kMark:
      if (state.phase != TracePhase::kOff) {
        model.mark++;
        return {};
      }
      return passes_over ? Errno{} : Errno::EINVAL;
    default:
      return Errno::EINVAL;
  }
}

void Episode::give(std::span<const Line> lines, Account* one) {
  char text[256];
  size_t length = 0;
  static constexpr const char* kWords[] = {"start", "stop", "reset", "mark"};
  bool only_marks = true;
  for (const Line& line : lines) {
    char options[80] = "";
    if (line.word == TraceWord::kStart) line.options.format_as_typed(options, sizeof(options));
    length += static_cast<size_t>(
        format(text + length, sizeof(text) - length, "%s%s\n", kWords[static_cast<unsigned>(line.word)], options));
    only_marks &= line.word == TraceWord::kMark;
  }

  // What it must make of each; nothing of any if it must fail for one.
  Model after[kAccounts], short_of_memory[kAccounts];
  Model others = {others_, 0}, others_short = others;
  Errno error{};
  const auto foresee = [&](Model& model, Model& model_short) {
    bool started = false;
    for (const Line& line : lines) {
      started |= line.word == TraceWord::kStart;
      if (!started) model_short = model;
      const Errno result = apply(model, line, one == nullptr);
      if (result != Errno{} && error == Errno{}) error = result;
      if (!started) model_short = model;
    }
  };
  const auto concerned = [&](const Account& account) { return account.is_open() && (!one || one == &account); };
  for (unsigned i = 0; i < kAccounts; i++) {
    if (!concerned(accounts[i])) continue;
    after[i] = short_of_memory[i] = {accounts[i].state(), accounts[i].mark()};
    foresee(after[i], short_of_memory[i]);
  }
  if (!one) foresee(others, others_short);

  const auto marks = static_cast<uint32_t>(lines.size());
  for (unsigned i = 0; i < kAccounts; i++) {
    Account& account = accounts[i];
    if (!concerned(account)) continue;
    if (only_marks) {
      account.begin_marks(marks);
    } else {
      account.begin_change(after[i].state.generation);
    }
  }
  const Result<void> done = one ? trace_command(one->source(), {text, length}) : trace_command_all({text, length});
  const bool no_memory = !done && done.error() == Errno::ENOMEM && lossy_;
  const bool foreseen = no_memory || (done ? error == Errno{} : done.error() == error);
  if (!foreseen) {
    klog("proof: %s gave error %d (%s), not %d: %.*s", one ? one->source().name() : "ctl",
         done ? 0 : static_cast<int>(done.error()), done ? "" : current_task()->error_string, static_cast<int>(error),
         static_cast<int>(length), text);
    good_ = false;
  }
  for (unsigned i = 0; i < kAccounts; i++) {
    Account& account = accounts[i];
    if (!concerned(account)) continue;
    const Model is = no_memory ? short_of_memory[i] : done ? after[i] : Model{account.state(), account.mark()};
    if (only_marks) {
      // Only one that is traced has them.
      if (is.state.phase == TracePhase::kOff)
        account.set_mark(account.mark());
      else
        account.end_marks(marks);
    } else {
      account.set_mark(is.mark);
      account.end_change(is.state);
    }
  }
  if (!one && (done || no_memory)) others_ = (no_memory ? others_short : others).state;
  history_.add(one ? one->source().name() : "ctl", {text, length}, done ? 0 : static_cast<int>(done.error()));
  hash_.add(word_hash(lines) + (done ? 0 : static_cast<uint64_t>(done.error())));
}

// False if there was a difference.
bool run_episode(uint64_t seed, unsigned rounds, uint64_t* events) {
  unsigned round = 0;
  bool good = true;
  uint64_t hash = 0;
  {
    Episode episode(seed);
    while (good && round < rounds) {
      good = episode.round();
      round++;
    }
    if (!good) episode.print_history();
    hash = episode.hash();
    *events += episode.events();
  }
  klog("proof: seed=%lu rounds=%u cpus=%u: hash %016lx%s", seed, round, cpu_count(), hash, good ? "" : ", DIFFERENCES");
  if (good) return true;
  klog("proof: to replay it: scripts/guest --icount --smp %u --ktest=proof --cmdline 'seed=%lu rounds=%u'", cpu_count(),
       seed, rounds);
  return false;
}

}  // namespace

KTEST(trace_proof) {
  static bool registered = interrupt_register_vector(kVector, "proof", on_interrupt, nullptr).ok();
  EXPECT(registered);
  const uint64_t first_seed = option("seed", kDefaultSeed);
  const uint64_t minutes = option("minutes", 0);
  const uint64_t rounds = option("rounds", kUsualRounds);
  const Nanoseconds end = monotonic_now() + Nanoseconds{minutes * 60'000'000'000};
  EXPECT(trace_command_all("settle").ok());
  uint64_t done = 0, events = 0;
  for (uint64_t seed = first_seed; minutes > 0 ? monotonic_now() < end : done < rounds; seed++) {
    const auto now =
        static_cast<unsigned>(minutes > 0 ? kRoundsOfEpisode : std::min<uint64_t>(kRoundsOfEpisode, rounds - done));
    const bool good = run_episode(seed, now, &events);
    EXPECT(good);
    if (!good) break;
    done += now;
  }
  klog("proof: %lu rounds, %lu events, %lu dumps read meanwhile", done, events, workload.dumps.load());
}
