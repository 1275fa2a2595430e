// Traces a class of references (RefClass) under load on all CPUs: each reference has a record.
// While no task takes or drops references, an object has as many records as its reference count.
// This test uses the address spaces of real processes; coverage_test.cc uses coverage maps.
#include "arch/x86_64/time.h"
#include "core/ktest.h"
#include "proc/process_impl.h"
#include "tests/test_program.h"
#include "tests/trace_records.h"

namespace {

constexpr unsigned kShells = 8;
// A shell script that forks, executes existing and missing programs, maps memory, kills a child,
// and has another process read its address space. At the end the script runs a program that sleeps
// until the test kills it.
constexpr const char* kStorm =
    "i=0; while [ $i -lt 6 ]; do i=$((i + 1));"
    " (:); (/bin/true; exit 1); /bin/dd if=/bin/sh of='#null/null' bs=400k;"
    " /bin/none; (exec /bin/none); /bin/sleep 1000 & kill -9 $!; wait $!;"
    " /bin/cat \"#proc/$$/cmdline\"; done 2> '#null/null'; /bin/sleep 1000; exit 3";

TraceSource spaces() {
  return &ref_class(RefKind::kAddressSpace);
}

struct Running {
  unsigned processes = 0, asleep = 0;
  uint32_t sleepers[kShells];
};

// Counts all processes except process 1, and among them the processes that sleep in /bin/sleep.
Running running() {
  Running now;
  for (uint32_t pid = process_next(kInitPid); pid; pid = process_next(pid)) {
    Result<ProcessInfo> info = process_info(pid);
    if (!info) continue;
    now.processes++;
    if (std::string_view(info->name) != "sleep" || info->state != 'S') continue;
    if (now.asleep < kShells) now.sleepers[now.asleep] = pid;
    now.asleep++;
  }
  return now;
}

// Counts the processes whose address space has a record for each reference.
unsigned recorded_spaces() {
  unsigned count = 0;
  for (uint32_t pid = process_next(kInitPid); pid; pid = process_next(pid)) {
    Ref<AddressSpace> space;
    {
      const Guard guard(process_lock);
      if (const Process* const process = process_find(pid)) space = process->space;
    }
    count += space && records_of(spaces(), space.get()) == space->ref_count();
  }
  return count;
}

}  // namespace

KTEST(ref_trace_counts_address_spaces_under_load) {
  const uint64_t before = spaces().live();
  EXPECT(trace_command_all("refs").ok());
  uint32_t shells[kShells];
  for (uint32_t& shell : shells) shell = start_program({"/bin/sh", "-c", kStorm});
  Running now;
  for (;;) {
    now = running();
    if (now.asleep == kShells && now.processes == 2 * kShells) break;
    const TraceCounters counters = counters_of(spaces());
    EXPECT(counters.unmatched == 0 && counters.dropped == 0);
    static_cast<void>(task_sleep_until(monotonic_now() + Nanoseconds{10'000'000}));
  }
  EXPECT(recorded_spaces() == 2 * kShells);
  EXPECT(counters_of(spaces()).live == spaces().live() - before);
  EXPECT(spaces().live() - before == 2 * kShells);

  for (const uint32_t sleeper : now.sleepers)
    EXPECT(process_signal(static_cast<int32_t>(sleeper), ABI_SIGKILL, {}).ok());
  for (const uint32_t shell : shells) EXPECT(wait_for_program(shell) == exited_status(3));
  task_drain_dead();
  const TraceCounters counters = counters_of(spaces());
  EXPECT(counters.recorded > 50 * kShells && counters.live == 0 && counters.unmatched == 0);
  EXPECT(spaces().live() == before);
  EXPECT(trace_command_all("stop\nreset").ok());
}
