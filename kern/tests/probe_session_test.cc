// Sessions of #probe, while all CPUs call the probed functions.
#include <algorithm>
#include <atomic>

#include "arch/x86_64/smp.h"
#include "core/ktest.h"
#include "intern/shared_tables.h"
#include "intern/sweeper.h"
#include "intern/trace_memory.h"
#include "lib/format.h"
#include "probe/session.h"
#include "slab.h"
#include "tests/dump_text.h"
#include "tests/team.h"
#include "tests/test_program.h"

namespace {

struct NoPrograms final : ProbeCaller {
  Result<HeldRef<Chan>> open(std::string_view) override { return Errno::ENOENT; }
  void close(HeldRef<Chan>) override {}
};

// The probed functions.
[[gnu::noipa]] void session_called() {}
[[gnu::noipa]] void session_called_deep(unsigned depth) {
  if (depth > 0) {
    session_called_deep(depth - 1);
  } else {
    session_called();
  }
}
[[gnu::noipa]] void* session_alloc(size_t size, void* object) {
  return size == 0 ? nullptr : object;
}
[[gnu::noipa]] void session_free(void*) {}
[[gnu::noipa]] void* session_outer_alloc(size_t size, void* object) {
  session_free(session_alloc(size, object));
  return object;
}

class Session {
 public:
  Session() : session_(ProbeSession::create().take()) {}
  ~Session() { ProbeSession::destroy(session_); }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  bool does(std::string_view text) { return session_->command(text, programs_).ok(); }
  ProbeSession* operator->() { return session_; }
  ProbeSession::State counts(ProbeCounts& counts) { return session_->copy_counts(counts).take(); }

 private:
  NoPrograms programs_;
  ProbeSession* const session_;
};

ProbeCounts no_counts() {
  return {trace_stacks, trace_contexts, ProbeApart::kPrograms};
}

void on_all_cpus(void (*body)(void*), void* argument) {
  Team team(body, argument);
  for (const CpuId cpu : all_cpus()) team.add(cpu);
  team.join();
}

constexpr uint64_t kCalls = 5000;
constexpr unsigned kDepths = 23;

void call_at_depths(void*) {
  for (uint64_t i = 0; i < kCalls; i++) session_called_deep(static_cast<unsigned>(i % kDepths));
}

}  // namespace

KTEST(probe_session_counts_all_cpus) {
  {
    Session session;
    EXPECT(session.does("count session_called\nstart"));
    on_all_cpus(call_at_depths, nullptr);
    {
      ProbeCounts counts = no_counts();
      const ProbeSession::State state = session.counts(counts);
      EXPECT(state.tallies.counted == cpu_count() * kCalls && state.tallies.lost == 0 &&
             state.tallies.stacks_lost == 0);
      EXPECT(counts.size() == kDepths && counts.total() == cpu_count() * kCalls);
    }
    // Calls after `stop` are not counted.
    EXPECT(session.does("stop"));
    call_at_depths(nullptr);
    ProbeCounts counts = no_counts();
    EXPECT(session.counts(counts).tallies.counted == cpu_count() * kCalls);
  }
  EXPECT(trace_memory_used() == 0);
}

// No hit may come while a sweep clears a CPU's hints, because a hit uses them.
KTEST(probe_session_is_kept_out_of_a_sweep) {
  Session session;
  EXPECT(session.does("count stack_hints_clear\nstart"));
  trace_sweep();
  ProbeCounts counts = no_counts();
  const ProbeSession::State state = session.counts(counts);
  EXPECT(counts.total() == 0 && state.kept_out == cpu_count());
}

// The stacks that a session's counts name stay valid, while the stacks of another session are
// swept.
KTEST(probe_session_keeps_its_stacks_when_swept) {
  {
    Session session;
    EXPECT(session.does("count session_called\nprocesses\nstart"));
    call_at_depths(nullptr);
    EXPECT(session.does("stop"));
    ProbeCounts before = no_counts();
    session.counts(before);
    EXPECT(before.size() == kDepths);
    {
      Session other;  // its stacks are swept, and their table entries reused
      for (unsigned i = 0; i < 10; i++) {
        EXPECT(other.does(i == 0 ? "count session_called\nstart" : "clear"));
        call_at_depths(nullptr);
        trace_sweep();
      }
    }
    ProbeCounts after = no_counts();
    session.counts(after);
    EXPECT(after.size() == kDepths);
    for (uint32_t i = 0; i < kDepths; i++) {
      const StackTable::View was = trace_stacks.view(before[i].kernel),
                             is = trace_stacks.view(after[i].kernel);
      EXPECT(before[i].kernel == after[i].kernel && before[i].count == after[i].count);
      EXPECT(was.size() == is.size() && is.size() > 2 && is.kind() == StackKind::kKernel);
    }
  }
  EXPECT(trace_memory_used() == 0);
}

KTEST(probe_session_is_cleared_and_read_under_load) {
  static std::atomic<bool> done;
  static std::atomic<uint64_t> calls;
  done = false;
  calls = 0;
  {
    Session session;
    EXPECT(session.does("count session_called\nprocesses\nstart"));
    Team team(
        [](void*) {
          uint64_t made = 0;
          for (; !done; made++) session_called_deep(static_cast<unsigned>(made % kDepths));
          calls += made;
        },
        nullptr);
    for (const CpuId cpu : all_cpus()) team.add(cpu);
    uint64_t cleared = 0;
    for (int i = 0; i < 40; i++) {
      uint64_t before = 0;
      for (int j = 0; j < 3; j++) {
        ProbeCounts counts(trace_stacks, trace_contexts, ProbeApart::kProcesses);
        const ProbeSession::State state = session.counts(counts);
        EXPECT(state.tallies.counted >= before && state.tallies.lost == 0);
        before = state.tallies.counted;
        task_yield();
      }
      cleared += before;
      EXPECT(session.does(i % 4 == 3 ? "stop\nclear\nstart" : "clear"));
    }
    EXPECT(session.does("clear"));
    done = true;
    team.join();
    ProbeCounts counts(trace_stacks, trace_contexts, ProbeApart::kProcesses);
    EXPECT(session.counts(counts).tallies.counted + cleared <= calls);
    EXPECT(session.does("stop\nclear"));
    ProbeCounts none(trace_stacks, trace_contexts, ProbeApart::kProcesses);
    EXPECT(session.counts(none).tallies.hits() == 0 && none.size() == 0);
  }
  EXPECT(trace_memory_used() == 0);
}

KTEST(probe_session_events_of_all_cpus) {
  {
    Session session;
    EXPECT(session->open_events().ok());
    EXPECT(session.does("event+return session_called\nstart"));
    Team team(call_at_depths, nullptr);
    for (const CpuId cpu : all_cpus()) team.add(cpu);
    uint64_t seen = 0, lost = 0;
    const uint64_t wanted = 2 * cpu_count() * kCalls;
    while (seen + lost < wanted) {
      ProbeEvent event;
      bool any;
      uint64_t missed;
      if (!session->take_event(&event, &any, &missed)) {
        task_yield();
        continue;
      }
      lost += missed;
      if (any) seen++;
      EXPECT(!any || number_of(event.cpu) < cpu_count());
    }
    team.join();
    ProbeCounts counts = no_counts();
    const ProbeSession::State state = session.counts(counts);
    EXPECT(state.tallies.counted == seen && state.tallies.lost == lost);
  }
  EXPECT(trace_memory_used() == 0);
}

KTEST(probe_session_pairs_of_all_cpus) {
  {
    Session session;
    EXPECT(
        session.does("alloc session_alloc size=1\nalloc session_outer_alloc size=1\nfree "
                     "session_free address=1\nstart"));
    on_all_cpus(
        [](void*) {
          const uintptr_t base = 0xffffc00000000000 + uint64_t{number_of(cpu_id())} * 0x1000000;
          for (uintptr_t i = 0; i < 3000; i++) {
            void* const object = reinterpret_cast<void*>(base + i * 64);
            if (i % 2 == 0) {
              session_alloc(i + 1, object);
            } else {
              session_outer_alloc(i + 1, object);  // the calls inside it do not count separately
            }
            session_alloc(0, object);  // a failed allocation
            if (i % 3 != 0) session_free(object);
            if (i % 3 == 2) session_free(object);  // the second free finds no record
          }
        },
        nullptr);
    const abi_tracedump_source source = take_first_source(session->open_outstanding());
    EXPECT(source.kind == ABI_TRACEDUMP_PROBE && source.recorded == 3000 * cpu_count() &&
           source.live == 1000 * cpu_count());
    EXPECT(source.unmatched == 1000 * cpu_count() && source.dropped == 0 &&
           source.stacks_lost == 0);
  }
  EXPECT(trace_memory_used() == 0);
}

namespace {

// Runs `body` as if the current task belonged to process `pid`.
template <typename Body>
void as_process(uint32_t pid, Body body) {
  const PreemptOff pinned;
  TaskHead& task = *current_task_head();
  const uint32_t before = task.pid;
  task.pid = pid;
  body();
  task.pid = before;
}

}  // namespace

// The filter `pid` selects a kernel object by the process that allocates it. The free of the object
// is then recorded, no matter which process frees it.
KTEST(probe_session_pid_is_who_allocates) {
  constexpr uint32_t kWanted = 4711, kOther = 4712;
  const auto object = [](uintptr_t i) {
    return reinterpret_cast<void*>(0xffffc00000000000 + i * 64);
  };
  {
    Session session;
    EXPECT(
        session.does("alloc session_alloc size=1\nfree session_free address=1\npid 4711\nstart"));
    as_process(kWanted, [&] {
      for (uintptr_t i = 0; i < 4; i++) session_alloc(1, object(i));
      session_free(object(0));
    });
    as_process(kOther, [&] {
      session_alloc(1, object(9));
      session_free(object(1));
    });
    session_free(object(2));  // a kernel task frees the object
    const abi_tracedump_source source = take_first_source(session->open_outstanding());
    EXPECT(source.recorded == 4 && source.freed == 3 && source.live == 1);
    EXPECT(source.filtered == 1 && source.unmatched == 0);
  }
  EXPECT(trace_memory_used() == 0);
}

// A command that names more functions than a session may have fails, and leaves nothing behind.
KTEST(probe_session_has_a_limit) {
  {
    constexpr std::string_view kAll = "count *\n";
    const size_t size = (ProbeFunctions::kMaxRequests / kernel_function_count() + 1) * kAll.size();
    char* const text = static_cast<char*>(trace_copy_alloc(align_up(size, kPageSize)));
    for (size_t i = 0; i < size; i++) text[i] = kAll[i % kAll.size()];
    Session session;
    NoPrograms nobody;
    EXPECT(fails_with(Errno::ENOSPC, session->command({text, size}, nobody)));
    EXPECT(!session.does("start"));
    EXPECT(session.does("count session_called\nstart"));
    trace_copy_free(text, align_up(size, kPageSize));
  }
  EXPECT(trace_memory_used() == 0);
}

// A command ends early if its caller has been killed.
KTEST(probe_session_command_ends_with_its_caller) {
  struct Killed final : ProbeCaller {
    Result<HeldRef<Chan>> open(std::string_view) override {
      opened = true;
      return Errno::ENOENT;
    }
    void close(HeldRef<Chan>) override {}
    bool is_ending() override { return true; }
    bool opened = false;
  } killed;
  {
    Session session;
    EXPECT(fails_with(Errno::EINTR, session->command("count session_called", killed)));
    EXPECT(!session.does("start"));
    EXPECT(session.does("count /bin/none:401000:none"));
    EXPECT(fails_with(Errno::EINTR, session->command("start", killed)) && !killed.opened);
  }
  EXPECT(trace_memory_used() == 0);
}

// A start fails after some of its probes were armed and hit. The session does not keep these hits,
// and a later start has its full effect.
KTEST(probe_session_start_is_all_or_nothing) {
  struct OneProgram final : ProbeCaller {
    explicit OneProgram(TestProgram& program) : program(program) {}
    Result<HeldRef<Chan>> open(std::string_view path) override {
      if (path == "/bin/probetest") {
        return Ref<Chan>(&program.file()).release();
      }
      EXPECT(run_probetest("calls", 10) == 0);  // the armed probes report these calls
      return Errno::ENOENT;
    }
    void close(HeldRef<Chan> file) override { Ref<Chan>::adopt(file).reset(); }
    TestProgram& program;
  };
  test_process_1();
  {
    TestProgram program("/bin/probetest");
    OneProgram programs(program);
    ProbeSession* const session = ProbeSession::create().take();
    const auto does = [&](const char* text) { return session->command(text, programs).ok(); };
    EXPECT(session->open_events().ok());
    const uint64_t leaf = program.function("probetest_leaf").address;
    char text[256];
    format(text, sizeof(text), "event /bin/probetest:%lx:leaf", leaf);
    EXPECT(does(text));
    EXPECT(!does("event /bin/none:401000:none\nstart"));
    const auto expect_nothing = [&] {
      ProbeCounts counts = no_counts();
      const ProbeSession::State state = session->copy_counts(counts).take();
      EXPECT(state.tallies.hits() == 0 && state.kept_out == 0 && state.phase == TracePhase::kOff);
      ProbeEvent event;
      bool any;
      uint64_t lost;
      EXPECT(!session->take_event(&event, &any, &lost));
    };
    expect_nothing();
    EXPECT(does("start"));
    EXPECT(run_probetest("calls", 10) == 0);
    EXPECT(does("stop"));
    ProbeCounts counts = no_counts();
    EXPECT(session->copy_counts(counts).take().tallies.counted == 20);
    ProbeSession::destroy(session);
  }
  EXPECT(trace_memory_used() == 0);
}

// A call that an exception ends is counted as abandoned: at a later call of the same thread, or
// when the thread ends.
KTEST(probe_session_abandoned_calls_are_counted) {
  struct Program final : ProbeCaller {
    explicit Program(TestProgram& program) : program(program) {}
    Result<HeldRef<Chan>> open(std::string_view) override {
      return Ref<Chan>(&program.file()).release();
    }
    void close(HeldRef<Chan> file) override { Ref<Chan>::adopt(file).reset(); }
    TestProgram& program;
  };
  test_process_1();
  {
    TestProgram program("/bin/probetest");
    Program programs(program);
    ProbeSession* const session = ProbeSession::create().take();
    const TestProgram::Function thrower = program.function("probetest_throw");
    EXPECT(thrower.return_count > 0);
    char text[256];
    format(text, sizeof(text), "alloc /bin/probetest:%lx:throw:%lx size=1\nstart", thrower.address,
           thrower.returns[0]);
    EXPECT(session->command(text, programs).ok());
    const auto abandoned = [&] {
      ProbeCounts counts = no_counts();
      return session->copy_counts(counts).take().abandoned;
    };
    EXPECT(abandoned() == 0);
    EXPECT(run_probetest("exceptions", 20) == 0);
    EXPECT(abandoned() == 20);
    EXPECT(session->command("clear", programs).ok() && abandoned() == 0);
    ProbeSession::destroy(session);
  }
  EXPECT(trace_memory_used() == 0);
}
