#include "tests/proof_account.h"

#include <algorithm>
#include <cstdarg>

#include "arch/x86_64/time.h"
#include "core/cpu.h"
#include "core/log.h"
#include "core/symbols.h"
#include "intern/shared_tables.h"
#include "lib/format.h"
#include "lib/string.h"
#include "sched/task.h"
#include "tests/cache_stats.h"
#include "tests/dump_text.h"
#include "trace/record/snapshot.h"

namespace proof {

uint64_t Random::next() {
  uint64_t z = (state_ += 0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

void make_name(uint32_t pid, char (&name)[kTaskName]) {
  if (pid == 0) {
    format(name, sizeof(name), "ktest");
  } else {
    format(name, sizeof(name), "proof%u", pid);
  }
}

bool is_name_of(uint32_t pid, const char* name) {
  char expected[kTaskName];
  make_name(pid, expected);
  return std::string_view(name) == expected;
}

// --- Life.

void Account::open(TraceSource source, struct arena* arena, uint32_t largest, const State& state,
                   uint32_t mark) {
  arena_ = arena;
  largest_ = largest;
  source_ = source;
  failures_ = 0;
  failures_before_ = arena ? 0 : stats_of(source.cache()).failures;
  first_generation_ = 0;
  for (Tally& tally : tallies_) memset(static_cast<void*>(&tally), 0, sizeof(Tally));
  // An actor makes an empty slot busy before it checks whether it may allocate. So a slot may be
  // busy even though the account is still closed.
  for (const Slot& slot : slots_) ASSERT(slot.state != SlotState::kFull);
  set_mark(mark);
  begin_change(state.generation);
  end_change(state);
  may_allocate_ = true;
  open_ = true;
}

void Account::close() {
  open_ = false;
  may_allocate_ = false;
  while (holders_ != 0 || allocating_ != 0) task_yield();
  source_.release();
  source_ = {};
}

bool Account::hold() {
  holders_++;
  if (open_) return true;
  holders_--;
  return false;
}

void Account::forbid_allocations() {
  may_allocate_ = false;
  while (allocating_ != 0) task_yield();
}

void Account::end_change(const State& state) {
  ASSERT(state.generation - first_generation_ < kGenerations);
  state_ = state;
  phase_ = state.phase;
  depth_ = state.options.depth;
  min_size_ = state.options.min_size;
  max_size_ = state.options.max_size;
  pid_ = state.options.pid;
  sample_ = state.options.sample;
  generation_ = state.generation;
  resets_ = state.resets;
  lossy_ = state.lossy;
  if (state.lossy) tally(state.generation).lossy = true;
  version_++;
}

Account::View Account::look() const {
  View view;
  view.version = version_;
  view.state.phase = phase_;
  view.state.options = {.depth = depth_,
                        .min_size = min_size_,
                        .max_size = max_size_,
                        .pid = pid_,
                        .sample = sample_};
  view.state.generation = generation_;
  view.state.resets = resets_;
  view.state.lossy = lossy_;
  return view;
}

// --- Events.

void Account::act(Actor& actor, bool prefers_to_free) {
  for (unsigned tries = 0; tries < 4; tries++) {
    // Half of the actions use the few hot slots, so objects usually pass from one CPU to another.
    Slot& slot = slots_[actor.random.below(actor.random.one_in(2) ? kHotSlots : kSlots)];
    SlotState state = slot.state;
    if (state == SlotState::kBusy || (state == SlotState::kEmpty) == prefers_to_free) continue;
    if (!slot.state.compare_exchange_strong(state, SlotState::kBusy)) continue;
    if (state == SlotState::kFull) {
      release(slot, actor);
    } else {
      allocate(slot, actor);
    }
    return;
  }
}

void Account::release_all(Actor& actor) {
  for (Slot& slot : slots_) {
    SlotState full = SlotState::kFull;
    if (slot.state.compare_exchange_strong(full, SlotState::kBusy)) release(slot, actor);
  }
}

void Account::allocate(Slot& slot, Actor& actor) {
  allocating_++;
  if (!may_allocate_) {
    slot.state = SlotState::kEmpty;
    allocating_--;
    return;
  }
  Random& random = actor.random;
  slot.path = {
      .word = static_cast<uint32_t>(random.next()),
      .frames = static_cast<uint8_t>(1 + random.below(random.one_in(8) ? Path::kMaxFrames : 4))};
  slot.size = 1 + random.below(largest_);
  slot.in_interrupt = actor.in_interrupt;
  slot.pid = actor.in_interrupt ? 0 : current_task()->pid;
  slot.thread = actor.in_interrupt ? 0 : current_task()->thread_in_context;
  slot.user_call = actor.user_call;
  slot.cpu_known = actor.in_interrupt || random.one_in(2);
  const int flags = slot.cpu_known || random.one_in(2) ? KM_ATOMIC : KM_SLEEP;

  const View before = look();
  slot.mark_low = mark_low_;
  slot.time_low = coarse_milliseconds();
  const Request request = {source_.cache(), arena_, slot.size, flags, before.state.options.depth};
  if (slot.cpu_known) {
    const PreemptOff off;
    slot.cpu = cpu_id();
    slot.object = allocate_along(slot.path, request, &slot.trail);
  } else {
    slot.object = allocate_along(slot.path, request, &slot.trail);
  }
  slot.time_high = coarse_milliseconds();
  slot.mark_high = mark_high_;
  const View after = look();

  actor.events++;
  actor.taken_again += slot.object && slot.object == actor.freed_remotely;
  actor.freed_remotely = nullptr;
  actor.hash.add(reinterpret_cast<uint64_t>(slot.object) ^ slot.size);
  if (slot.object) {
    tally_allocation(slot, before, after);
    slot.state = SlotState::kFull;
  } else {
    failures_++;
    slot.state = SlotState::kEmpty;
  }
  allocating_--;
}

void Account::tally_allocation(Slot& slot, const View& before, const View& after) {
  const State& state = before.state;
  slot.state_known = before.same_as(after);
  slot.depth = state.options.depth;
  if (!before.same_as(after)) {
    slot.expect = Expect::kEither;
    slot.generation = slot.resets = kUnknown;
    slot.depth = StackTable::kMaxFrames;
    for (uint32_t g = state.generation; g <= newest_generation_; g++) tally(g).maybe_allocations++;
    return;
  }
  slot.generation = state.generation;
  slot.resets = state.resets;
  slot.expect = Expect::kNotRecorded;
  if (state.phase != TracePhase::kRunning) return;
  tally(state.generation).seen++;
  if (!state.wants(slot.size, slot.pid)) {
    tally(state.generation).filtered++;
    return;
  }
  if (state.options.sample != 0) {
    tally(state.generation).unsure_filtered++;
    slot.expect = Expect::kEither;
    return;
  }
  slot.expect = state.lossy ? Expect::kOrDropped : Expect::kRecorded;
}

void Account::release(Slot& slot, Actor& actor) {
  if (slot.cpu_known && slot.cpu != cpu_id()) {
    actor.remote_frees++;
    actor.freed_remotely = slot.object;
  }
  const View before = look();
  if (arena_) {
    arena_free(arena_, slot.object, slot.size);
  } else {
    kmem_cache_free(source_.cache(), slot.object);
  }
  const View after = look();
  actor.events++;
  actor.hash.add(reinterpret_cast<uint64_t>(slot.object));
  tally_free(slot, before, after);
  slot.object = nullptr;  // before another actor can own the slot
  slot.state = SlotState::kEmpty;
}

void Account::tally_free(const Slot& slot, const View& before, const View& after) {
  const State& state = before.state;
  if (!before.same_as(after)) {
    for (uint32_t g = state.generation; g <= newest_generation_; g++) tally(g).maybe_frees++;
    return;
  }
  if (state.phase == TracePhase::kOff) return;
  Tally& counts = tally(state.generation);
  const bool lost = slot.generation != kUnknown &&
                    (slot.generation != state.generation || slot.resets != state.resets);
  if (lost || slot.expect == Expect::kNotRecorded) {
    counts.unmatched++;
  } else if (slot.expect == Expect::kRecorded) {
    counts.freed++;
  } else {
    counts.unsure_frees++;
  }
}

unsigned Account::live() const {
  unsigned count = 0;
  for (const Slot& slot : slots_) count += slot.state == SlotState::kFull;
  return count;
}

// --- Comparing.

// True if the last counted difference must be printed. A comparison prints its first six
// differences.
bool Account::says() const {
  return differences_ <= 6;
}

void Account::difference(const char* pattern, ...) {
  char line[200];
  va_list arguments;
  va_start(arguments, pattern);
  vformat(line, sizeof(line), pattern, arguments);
  va_end(arguments);
  differences_++;
  if (!says()) return;
  klog("proof: %s (%s, depth %u min %u max %u pid %u sample %lu, table %u, resets %u, mark %u): %s",
       source_.name(), trace_phase_name(state_.phase), state_.options.depth,
       state_.options.min_size, state_.options.max_size, state_.options.pid, state_.options.sample,
       state_.generation, state_.resets, mark_low_.load(), line);
}

void Account::describe(const Slot& slot) {
  if (!says()) return;
  static constexpr const char* kExpected[] = {"recorded", "not recorded", "either",
                                              "recorded or dropped"};
  klog(
      "proof:   account: %p size %u by %s, path %u of %u frames, trail %u 0x%x, user call 0x%x, "
      "pid %u thread %u%s, cpu %d, mark %u-%u%s, time %lu-%lu, table %d, resets %d: %s",
      slot.object, slot.size, path_function(slot.path, 0), slot.path.word, slot.path.frames,
      slot.trail.frames, slot.trail.hash, slot.user_call, slot.pid, slot.thread,
      slot.in_interrupt ? " interrupt" : "", slot.cpu_known ? static_cast<int>(slot.cpu) : -1,
      slot.mark_low, slot.mark_high, slot.state_known ? "" : "?", slot.time_low.value,
      slot.time_high.value, static_cast<int>(slot.generation), static_cast<int>(slot.resets),
      kExpected[static_cast<unsigned>(slot.expect)]);
}

void Account::describe(const TraceRecord& record) {
  if (!says()) return;
  klog("proof:   record: 0x%lx size %lu mark %u cpu %u time %lu context %u stack %u and %u",
       record.object(), record.size(), record.mark(), number_of(record.cpu()), record.time().value,
       number_of(record.context), number_of(record.stack), number_of(record.user_stack));
  const StackTable::View stack = trace_stacks.view(record.stack);
  for (size_t i = 0; stack && i < stack.size(); i++) {
    char frame[100];
    symbol_format(frame, sizeof(frame), stack[i]);
    klog("proof:     %s", frame);
  }
}

size_t Account::copy(PageBuffer<TraceRecord>& records, TraceCounters* counters) {
  const MutexGuard guard(trace_control);
  TraceTable* const table = trace_table_of(source_);
  if (!table) return 0;
  TraceSnapshot snapshot;
  if (!snapshot.open(*table)) panic("interrupted while comparing");
  *counters = snapshot.counters();
  if (!records.reserve(counters->live + 1)) panic("no memory to compare");
  size_t count = 0;
  TraceSnapshot::Slice slice;
  const bool all = snapshot.visit(slice, [&](const TraceRecord& record) {
    if (count == records.capacity()) return false;
    records[count++] = record;
    return true;
  });
  if (!all || count != counters->live) difference("records and counters do not agree");
  std::sort(records.data(), records.data() + count,
            [](const TraceRecord& a, const TraceRecord& b) { return a.object() < b.object(); });
  return count;
}

void Account::compare_state() {
  TraceState is;
  {
    const MutexGuard guard(trace_control);
    is = trace_state_of(source_);
  }
  if (is.phase != state_.phase) {
    difference("the trace is %s", trace_phase_name(is.phase));
  } else if (is.phase != TracePhase::kOff && is.options != state_.options) {
    difference("the trace has other options");
  } else if (is.phase != TracePhase::kOff && is.mark != mark_low_) {
    difference("the mark is %u", is.mark);
  }
  const int flags = source_.flags() & (KMC_TRACED | KMC_EVER_TRACED);
  const int expected = state_.phase == TracePhase::kOff       ? 0
                       : state_.phase == TracePhase::kStopped ? KMC_EVER_TRACED
                                                              : KMC_TRACED | KMC_EVER_TRACED;
  if (flags != expected) difference("the flags are 0x%x", static_cast<unsigned>(flags));
  if (source_.live() != live()) difference("%lu are live, %u are held", source_.live(), live());
  // The failures of an arena are not compared. If a quantum cache of the arena cannot serve a
  // request, the failure is counted for this cache, not for the arena.
  if (arena_) return;
  const uint64_t failures = stats_of(source_.cache()).failures - failures_before_;
  if (failures != failures_)
    difference("%lu failures are counted, there were %lu", failures, failures_.load());
}

unsigned Account::compare(Hash& hash) {
  if (!source_) return 0;
  differences_ = 0;
  const NumbersReading reading;  // keeps entries of stacks and contexts valid during sweeps
  compare_state();
  PageBuffer<TraceRecord> records;
  TraceCounters counters = {};
  const size_t count = copy(records, &counters);
  if (state_.phase != TracePhase::kOff) {
    const uint64_t missing = compare_records(records.data(), count);
    uint64_t bytes = 0;
    for (size_t i = 0; i < count; i++) bytes += records[i].size();
    if (counters.live != count)
      difference("live %lu, but there are %lu records", counters.live, count);
    if (counters.bytes != bytes)
      difference("bytes %lu, but the records have %lu", counters.bytes, bytes);
    compare_counters(counters, missing);
    compare_dump(counters);
  } else if (count > 0) {
    difference("%lu records while it is off", count);
  }
  hash.add(live());
  for (const uint64_t word :
       {counters.seen, counters.recorded, counters.dropped, counters.filtered, counters.freed,
        counters.cleared, counters.unmatched, counters.bytes, counters.truncated}) {
    hash.add(word);
  }
  forget_old_generations();
  return differences_;
}

uint64_t Account::compare_records(TraceRecord* records, size_t count) {
  uint64_t missing = 0;
  size_t matched = 0;
  for (size_t i = 1; i < count; i++) {
    if (records[i].object() != records[i - 1].object()) continue;
    difference("two records of one object");
    describe(records[i - 1]);
    describe(records[i]);
  }
  // For each record, `found` is true if a slot contains the record's object.
  PageBuffer<bool> found;
  if (!found.reserve(count + 1)) panic("no memory to compare");
  std::fill_n(found.data(), count, false);
  for (Slot& slot : slots_) {
    if (slot.state != SlotState::kFull) continue;
    const auto address = reinterpret_cast<uint64_t>(slot.object);
    const TraceRecord* const record =
        std::lower_bound(records, records + count, address,
                         [](const TraceRecord& a, uint64_t object) { return a.object() < object; });
    const bool recorded = record != records + count && record->object() == address;
    const bool lost = slot.generation != kUnknown &&
                      (slot.generation != state_.generation || slot.resets != state_.resets);
    const Expect expect = lost ? Expect::kNotRecorded : slot.expect;
    if (recorded) {
      matched++;
      found[static_cast<size_t>(record - records)] = true;
      if (expect == Expect::kNotRecorded) {
        difference("a record that must not be");
        describe(slot);
        describe(*record);
      } else {
        compare_record(slot, *record);
      }
    } else if (expect == Expect::kRecorded) {
      difference("no record");
      describe(slot);
    } else if (expect == Expect::kOrDropped) {
      missing++;
    }
    settle_slot(slot, recorded);
  }
  for (size_t i = 0; matched < count && i < count; i++) {
    if (found[i]) continue;
    difference("a record of what nobody holds");
    describe(records[i]);
  }
  return missing;
}

void Account::settle_slot(Slot& slot, bool recorded) {
  slot.expect = recorded ? Expect::kRecorded : Expect::kNotRecorded;
  slot.generation = state_.generation;
  slot.resets = state_.resets;
}

void Account::compare_record(const Slot& slot, const TraceRecord& record) {
  const char* wrong = nullptr;
  const ContextTable::Context* const context = trace_contexts.get(record.context);
  if (record.size() != slot.size) wrong = "size";
  if (slot.cpu_known && record.cpu() != slot.cpu) wrong = "CPU";
  if (slot.state_known && (record.mark() < slot.mark_low || record.mark() > slot.mark_high))
    wrong = "mark";
  if (record.time() < slot.time_low || record.time() > slot.time_high) wrong = "time";
  if (context && (context->kind == ContextKind::kInterrupt) != slot.in_interrupt)
    wrong = "kind of context";
  if (context && context->pid != slot.pid) wrong = "process";
  if (context && context->thread != slot.thread) wrong = "thread";
  if (context && !slot.in_interrupt && !is_name_of(slot.pid, context->program->name))
    wrong = "program";
  if (wrong) {
    difference("the record has another %s", wrong);
    describe(slot);
    describe(record);
  }
  compare_stack(slot, record);
}

void Account::compare_stack(const Slot& slot, const TraceRecord& record) {
  const StackTable::View stack = trace_stacks.view(record.stack);
  if (!stack) return;  // the stack was lost: compare_counters() checks whether this may happen
  bool right = stack.kind() == StackKind::kKernel && stack.size() > 0 && stack.size() <= slot.depth;
  for (unsigned i = 0; right && i < stack.size() && i < slot.path.frames; i++) {
    const Symbol symbol = symbol_lookup(stack[i] - 1);
    right = symbol.name && std::string_view(symbol.name).find(path_function(slot.path, i)) !=
                               std::string_view::npos;
  }
  if (right && slot.state_known) {
    const Trail trail = trail_of(stack);
    right = trail.frames == slot.trail.frames && trail.hash == slot.trail.hash;
  }
  // A user stack may be lost, too.
  if (right && record.user_stack != StackId::kNone)
    right = slot.user_call != 0 &&
            UserCall::matches(slot.user_call, trace_stacks.view(record.user_stack));
  if (right) return;
  difference("the record has another stack");
  describe(slot);
  describe(record);
}

void Account::compare_counters(const TraceCounters& counters, uint64_t missing) {
  const Tally& counts = tally(state_.generation);
  const auto within = [&](const char* name, uint64_t value, uint64_t low, uint64_t more) {
    if (value < low || value > low + more)
      difference("%s %lu, but from %lu to %lu", name, value, low, low + more);
  };
  if (counters.seen != counters.recorded + counters.dropped + counters.filtered)
    difference("seen is no sum");
  if (counters.live > counters.recorded) difference("recorded is no sum");
  within("seen", counters.seen, counts.seen, counts.maybe_allocations);
  within("filtered", counters.filtered, counts.filtered,
         counts.unsure_filtered + counts.maybe_allocations);
  const uint64_t frees = counts.freed + counts.unmatched + counts.unsure_frees;
  within("freed", counters.freed, counts.freed, counts.unsure_frees + counts.maybe_frees);
  within("unmatched", counters.unmatched, counts.unmatched,
         counts.unsure_frees + counts.maybe_frees);
  within("freed and unmatched", counters.freed + counters.unmatched, frees, counts.maybe_frees);
  if (counters.dropped < missing)
    difference("dropped %lu, but %lu have no record", counters.dropped, missing);
  if (!counts.lossy && counters.dropped + counters.stacks_lost + counters.contexts_lost > 0) {
    difference("dropped %lu, stacks lost %lu, contexts lost %lu, though nothing could be",
               counters.dropped, counters.stacks_lost, counters.contexts_lost);
  }
}

// Compares the counters in the head of a text dump with those of the table.
void Account::compare_dump(const TraceCounters& counters) {
  Result<TraceDump*> dump = trace_dump_open(source_);
  if (!dump) {
    difference("no dump: error %u", static_cast<unsigned>(dump.error()));
    return;
  }
  char text[1024];
  Result<size_t> size = trace_dump_read(*dump, text, sizeof(text), 0);
  const std::string_view head(text, size ? *size : 0);
  const bool same = number_after(head, "\nseen ") == counters.seen &&
                    number_after(head, " recorded ") == counters.recorded &&
                    number_after(head, " dropped ") == counters.dropped &&
                    number_after(head, " filtered ") == counters.filtered &&
                    number_after(head, " freed ") == counters.freed &&
                    number_after(head, " cleared ") == counters.cleared &&
                    number_after(head, " live ") == counters.live &&
                    number_after(head, " bytes ") == counters.bytes &&
                    number_after(head, " unmatched ") == counters.unmatched &&
                    number_after(head, " untracked ") == live() - counters.live;
  if (!same) difference("the dump says otherwise than the table: %.*s", 120, text);
  trace_dump_close(*dump);
}

// Keeps only the tally of the current table. Called while all actors pause, so all later events
// belong to the current table or to later ones.
void Account::forget_old_generations() {
  const uint32_t kept = state_.generation - first_generation_;
  const auto move = [](std::atomic<uint64_t>& to, const std::atomic<uint64_t>& from) {
    to = from.load();
  };
  if (kept > 0) {
    Tally &to = tallies_[0], &from = tallies_[kept];
    move(to.seen, from.seen);
    move(to.filtered, from.filtered);
    move(to.unsure_filtered, from.unsure_filtered);
    move(to.maybe_allocations, from.maybe_allocations);
    move(to.freed, from.freed);
    move(to.unmatched, from.unmatched);
    move(to.unsure_frees, from.unsure_frees);
    move(to.maybe_frees, from.maybe_frees);
    to.lossy = from.lossy.load();
  }
  for (unsigned i = 1; i < kGenerations; i++)
    memset(static_cast<void*>(&tallies_[i]), 0, sizeof(Tally));
  first_generation_ = state_.generation;
}

}  // namespace proof
