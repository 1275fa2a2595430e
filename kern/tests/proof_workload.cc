#include "tests/proof_workload.h"

#include <algorithm>
#include <iterator>
#include <string_view>

#include "arch/x86_64/interrupts.h"
#include "arch/x86_64/time.h"
#include "core/log.h"
#include "intern/sweeper.h"
#include "tests/dump_text.h"
#include "trace/control/control.h"
#include "trace/record/snapshot.h"

namespace proof {

constinit Account accounts[kAccounts];
constinit Workload workload;
constinit Faults faults;

namespace {

void act_somewhere(Actor& actor, bool prefers_to_free) {
  accounts[actor.random.below(kAccounts)].act(actor, prefers_to_free);
}

void rest_while_paused() {
  if (!workload.pause) return;
  workload.paused++;
  while (workload.pause) task_yield();
  workload.paused--;
}

// Opens a dump, checks that its counters add up, and reads it to the end. Does not pause before the
// end: other readers of the same trace wait until this snapshot is closed, so they could not pause
// either.
void read_dump(Account& account) {
  Result<TraceDump*> dump = trace_dump_open(account.source());
  if (!dump) return;  // not enough memory
  char text[1024];
  uint64_t offset = 0;
  while (const size_t size = trace_dump_read(*dump, text, sizeof(text), offset).take()) {
    const std::string_view head(text, size);
    if (offset == 0 && head.find("\nseen ") != std::string_view::npos) {
      workload.dumps++;
      if (!identities_hold(head)) {
        workload.bad_dumps++;
        klog("proof: a dump whose counters do not add up: %.*s", 160, text);
      }
    }
    offset += size;
  }
  trace_dump_close(*dump);
}

// Adds up the stacks of a snapshot's records into *sum, which changes if one of the stacks does.
// False if a stack is forgotten.
bool sum_stacks(TraceSnapshot& snapshot, uint64_t* sum) {
  *sum = 0;
  TraceSnapshot::Slice slice;
  return snapshot.visit(slice, [sum](const TraceRecord& record) {
    if (record.stack == StackId::kNone) return true;
    const StackTable::View stack = trace_stacks.view(record.stack);
    if (stack) *sum += record.object() * (trail_of(stack).hash | 1);
    return static_cast<bool>(stack);
  });
}

// Chooses the trace, and opens the snapshot some time later: commands may stop and reset the trace
// meanwhile, and sweeps may look for its numbers. While the snapshot is open, its stacks must stay.
void read_snapshot(Account& account, Random& random) {
  const auto rest = [&random] {
    static_cast<void>(task_sleep_until(monotonic_now() + Nanoseconds{random.below(4'000'000)}));
  };
  TraceSnapshot snapshot;
  {
    const MutexGuard guard(trace_control);
    TraceTable* const table = trace_table_of(account.source());
    if (!table) return;
    snapshot.choose(*table);
  }
  workload.chosen = &account;
  rest();
  if (!snapshot.open()) return;  // the trace has ended
  uint64_t before, after;
  bool good = sum_stacks(snapshot, &before);
  rest();
  good = sum_stacks(snapshot, &after) && good;
  workload.snapshots++;
  if (good && before == after) return;
  workload.bad_dumps++;
  klog("proof: the stacks of an open snapshot have changed");
}

}  // namespace

void on_interrupt(TrapFrame&, void*) {
  if (!workload.interrupts) return;
  Actor& actor = workload.interrupt_actors[number_of(cpu_id())];
  for (unsigned n = 1 + actor.random.below(3); n > 0; n--)
    act_somewhere(actor, actor.random.one_in(2));
}

void on_timer(void*) {
  if (!workload.interrupts) return;
  Actor& actor = workload.interrupt_actors[number_of(cpu_id())];
  for (unsigned n = 1 + actor.random.below(20); n > 0; n--)
    act_somewhere(actor, actor.random.one_in(2));
  timer_arm(workload.timers[number_of(cpu_id())],
            monotonic_now() + Nanoseconds{1 + actor.random.below(8'000'000)});
}

// Makes the current task act as a thread of process `pid`, or as a kernel task if `pid` is 0.
// `thread` is 0 for the first thread of the process.
void become(uint32_t pid, uint32_t thread) {
  Task& task = *current_task();
  task.pid = pid;
  task.thread_in_context = thread;
  make_name(pid, task.name);
  trace_program_changed(task);
}

// Works in bursts, so that magazines move to the depot and back, and slabs fill and empty. Half of
// the workers act as threads of processes, which start, make system calls and end. Several
// workers may act as threads of one process, or as the same thread, at the same time.
void worker(void*) {
  const unsigned number = workload.next_worker.fetch_add(1);
  Actor& actor = workload.workers[number];
  const bool plays_process = number % 2 != 0;
  UserCall call;
  Random& random = actor.random;
  while (!workload.stop) {
    rest_while_paused();
    if (actor.user_call != 0 && random.one_in(3)) {
      call.leave();
      actor.user_call = 0;
    }
    if (plays_process && actor.user_call == 0) {
      if (random.one_in(3)) {
        become(kFirstPid + random.below(random.one_in(2) ? kUsualPids : kPids),
               random.one_in(2) ? 0 : random.below(kThreads));
      }
      const uint32_t seed = 1 + random.below(100'000);
      if (random.one_in(2) && call.enter(seed)) actor.user_call = seed;
    }
    const unsigned favours_free = random.below(4);
    for (unsigned n = random.below(60); n > 0 && !workload.pause; n--) {
      act_somewhere(actor, random.below(4) < favours_free);
      if (random.one_in(24)) interrupt_raise_self(kVector);
    }
    if (random.one_in(2)) task_yield();
    if (random.one_in(32))
      static_cast<void>(task_sleep_until(monotonic_now() + Nanoseconds{random.below(5'000'000)}));
  }
  if (actor.user_call != 0) call.leave();
  become(0, 0);
}

void sweeper(void*) {
  Random random;
  random.seed(1);
  while (!workload.stop) {
    trace_sweep();
    workload.sweeps++;
    if (random.one_in(2)) {
      task_yield();
    } else {
      static_cast<void>(task_sleep_until(monotonic_now() + Nanoseconds{random.below(8'000'000)}));
    }
  }
}

void reader(void*) {
  Random random;
  random.seed(workload.next_reader.fetch_add(1));
  while (!workload.stop) {
    rest_while_paused();
    Account& account = accounts[random.below(kAccounts)];
    if (account.hold()) {
      if (random.one_in(2)) {
        read_dump(account);
      } else {
        read_snapshot(account, random);
      }
      account.drop();
    }
    static_cast<void>(task_sleep_until(monotonic_now() + Nanoseconds{random.below(4'000'000)}));
  }
}

int shall_fail(kmem_inject_site site, const void* source, size_t, int flags) {
  const bool is_page_of_trace = site == KMEM_INJECT_TRACE && !(flags & KM_SLEEP);
  if (faults.none || (!is_page_of_trace && current_task() == faults.controller)) return 0;
  uint32_t one_in = 0;
  const auto is_one_of = [source](const auto& known) {
    return std::find(std::begin(known), std::end(known), source) != std::end(known);
  };
  if (site == KMEM_INJECT_TRACE || is_one_of(faults.own_caches)) {
    one_in = faults.pages_one_in;
  } else if (is_one_of(faults.sources)) {
    one_in = faults.caches_one_in;
  }
  return one_in != 0 && faults.random[number_of(cpu_id())].one_in(one_in);
}

}  // namespace proof
