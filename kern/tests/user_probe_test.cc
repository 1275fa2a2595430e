// Tests probes on functions of programs. The program tests/programs/probetest enters and leaves its
// functions in all possible ways, and the test counts the hits of the probes.

#include <algorithm>
#include <atomic>

#include "abi/syscall.h"
#include "arch/x86_64/frames.h"
#include "core/ktest.h"
#include "kmalloc.h"
#include "lib/string.h"
#include "probe/probe.h"
#include "proc/process.h"
#include "proc/process_impl.h"
#include "proc/user_probes_impl.h"
#include "sched/task.h"
#include "slab.h"
#include "tests/team.h"
#include "tests/test_program.h"

namespace {

constexpr const char* kNames[] = {"probetest_leaf",   "probetest_outer", "probetest_recursive",
                                  "probetest_branch", "probetest_throw", "probetest_jump",
                                  "probetest_handler"};
enum Tag : uint32_t { kLeaf, kOuter, kRecursive, kBranch, kThrow, kJump, kHandler, kTags };

// Counts events. Pairs calls and returns as probe.h describes, for one process at a time.
class Recorder : public ProbeConsumer {
 public:
  std::atomic<uint64_t> calls[kTags]{}, returns[kTags]{};
  std::atomic<uint64_t> arguments{0}, results{0};
  std::atomic<uint64_t> matched{0}, dropped{0}, unmatched{0};
  std::atomic<uint32_t> ended{0}, became_other{0}, mapped{0}, unmapped{0}, last_pid{0};
  bool pairs = true;
  // The stack at the last call of kLeaf, and at its return.
  uint64_t call_frames[16]{}, return_frames[16]{};
  size_t call_depth = 0, return_depth = 0;

  void hit(const ProbeHit& hit) override {
    if (!hit.user || hit.tag >= kTags || interrupts_enabled()) return bad_.store(true);
    (hit.returned ? returns : calls)[hit.tag].fetch_add(1);
    if (hit.tag == kLeaf) note_leaf(hit);
    if (pairs) pair(hit);
  }
  void process_left(uint32_t pid, ProcessLeft how) override {
    last_pid = pid;
    if (!interrupts_enabled() || current_process()->pid != pid) bad_ = true;
    (how == ProcessLeft::kEnded ? ended : became_other).fetch_add(1);
    depth_ = 0;
  }
  void memory_mapped(uint64_t address, uint64_t size) override {
    if (address % kPageSize != 0 || size != 5000) bad_ = true;  // the size in `probetest maps`
    mapped++;
  }
  void memory_unmapped(uint64_t address, uint64_t size) override {
    if (address % kPageSize != 0 || size != 2 * kPageSize) bad_ = true;
    unmapped++;
  }
  bool good() const { return !bad_ && kept_out == 0; }
  uint64_t pairs_left() const { return depth_; }

 private:
  void note_leaf(const ProbeHit& hit) {
    if (hit.returned) {
      results += hit.registers->result();
      if (pairs)
        return_depth = walk_user_stack_of_call(true, return_frames, std::size(return_frames));
    } else {
      arguments += hit.registers->argument(0) + hit.registers->argument(1);
      if (pairs) call_depth = walk_user_stack_of_call(false, call_frames, std::size(call_frames));
    }
  }
  void pair(const ProbeHit& hit) {
    const auto drop_while = [&](auto condition) {
      for (; depth_ > 0 && condition(entered_[depth_ - 1].stack_pointer); depth_--) dropped++;
    };
    if (!hit.returned) {
      drop_while([&](uint64_t at) { return at <= hit.stack_pointer; });
      if (depth_ == std::size(entered_)) return bad_.store(true);
      entered_[depth_++] = {hit.stack_pointer, hit.tag};
      return;
    }
    drop_while([&](uint64_t at) { return at < hit.stack_pointer; });
    if (depth_ > 0 && entered_[depth_ - 1].stack_pointer == hit.stack_pointer &&
        entered_[depth_ - 1].tag == hit.tag) {
      depth_--;
      matched++;
    } else {
      unmatched++;
    }
  }

  struct Entered {
    uint64_t stack_pointer;
    uint32_t tag;
  };
  Entered entered_[200];
  size_t depth_ = 0;
  std::atomic<bool> bad_{false};
};

class Probetest : public TestProgram {
 public:
  Probetest() : TestProgram("/bin/probetest") {
    for (uint32_t i = 0; i < kTags; i++) {
      functions[i] = function(kNames[i]);
      probes[i] = {functions[i].address, {functions[i].returns, functions[i].return_count}, i};
    }
  }
  Function functions[kTags];
  UserProbe probes[kTags];
};

// An object too large for a kernel stack.
template <typename T>
class Heap {
 public:
  Heap() : object_(new (kmalloc(sizeof(T), KM_SLEEP)) T) {}
  ~Heap() {
    object_->~T();
    kfree(object_);
  }
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;
  operator T&() { return *object_; }
  T* operator->() { return object_; }
  T& operator*() { return *object_; }

 private:
  T* const object_;
};

// Arms probes for the life of a scope.
class Armed {
 public:
  Armed(TestProgram& program, ProbeConsumer& consumer, std::span<const UserProbe> probes)
      : consumer_(consumer) {
    EXPECT(user_probes_arm(consumer, program.file(), probes));
  }
  ~Armed() { user_probes_disarm(consumer_); }

 private:
  ProbeConsumer& consumer_;
};

// Makes one allocation of this task fail: the first after `skip` others.
class OneFails {
 public:
  explicit OneFails(uint64_t skip) {
    task_ = current_task();
    skip_ = skip;
    failed_ = false;
    EXPECT(kmem_inject_begin(fails));
  }
  ~OneFails() { kmem_inject_end(); }
  static bool failed() { return failed_; }

 private:
  // Two kinds of allocations never fail here: pages for the tracer, and objects of caches that
  // cannot be traced, such as the allocator's own. If one of them failed, the caller's allocation
  // might still succeed.
  static int fails(kmem_inject_site site, const void* source, size_t, int) {
    if (current_task() != task_ || this_cpu().interrupt_depth > 0 || failed_ ||
        site == KMEM_INJECT_TRACE)
      return 0;
    if (site == KMEM_INJECT_CACHE &&
        (kmem_cache_flags(static_cast<const kmem_cache*>(source)) & KMC_NOTRACE))
      return 0;
    if (skip_-- > 0) return 0;
    return failed_ = true;
  }
  static inline Task* task_;
  static inline uint64_t skip_;
  static inline bool failed_;
};

// Checks that no probe is armed and no consumer registered any more, and that the program's code is
// the original.
void expect_nothing_left() {
  EXPECT(user_probes_in_use.programs == 0 && user_probes_in_use.consumers == 0 &&
         user_probes_in_use.watchers == 0);
  EXPECT(run_probetest("text") == 0);
}

}  // namespace

KTEST(user_probes_calls_and_returns) {
  Heap<Probetest> program_here;
  Probetest& program = *program_here;
  Heap<Recorder> on_heap;
  Recorder& recorder = *on_heap;
  const Armed armed(program, recorder, program.probes);
  EXPECT(run_probetest("calls", 1000) == 0);
  EXPECT(recorder.calls[kOuter] == 1000 && recorder.returns[kOuter] == 1000);
  EXPECT(recorder.calls[kLeaf] == 2000 && recorder.returns[kLeaf] == 2000);
  EXPECT(recorder.arguments == 999 * 1000 + 3 * 1000 &&
         recorder.results == 3 * 999 * 1000 + 3 * 1000);
  EXPECT(recorder.matched == 3000 && recorder.dropped == 0 && recorder.unmatched == 0 &&
         recorder.pairs_left() == 0);
  EXPECT(recorder.ended == 1 && recorder.became_other == 0 && recorder.good());
  // The frames are leaf, outer, calls, main, and main's caller.
  const auto *call = recorder.call_frames, *back = recorder.return_frames;
  EXPECT(recorder.call_depth >= 5 && recorder.return_depth == recorder.call_depth - 1);
  EXPECT(call[0] == program.functions[kLeaf].address + 5 &&
         program.functions[kOuter].contains(call[1]));
  EXPECT(program.function("main").contains(call[3]));
  EXPECT(std::equal(call + 1, call + recorder.call_depth, back));
  EXPECT(run_probetest("branches", 100) == 0);
  EXPECT(recorder.calls[kBranch] == 100 && recorder.returns[kBranch] == 100 &&
         recorder.unmatched == 0);
  EXPECT(run_probetest("recursion", 100) == 0);
  EXPECT(recorder.calls[kRecursive] == 101 && recorder.returns[kRecursive] == 101 &&
         recorder.unmatched == 0);
}

KTEST(user_probes_other_ways_out) {
  Heap<Probetest> program_here;
  Probetest& program = *program_here;
  {
    Heap<Recorder> on_heap;
    Recorder& recorder = *on_heap;
    const Armed armed(program, recorder, program.probes);
    EXPECT(run_probetest("exceptions", 20) == 0);
    EXPECT(recorder.calls[kThrow] == 20 * 11 && recorder.returns[kThrow] == 0 &&
           recorder.dropped == 20 * 11);
    EXPECT(recorder.matched == 20 * 3 && recorder.unmatched == 0 && recorder.pairs_left() == 0 &&
           recorder.good());
    EXPECT(run_probetest("jumps", 20) == 0);
    EXPECT(recorder.calls[kJump] == 20 * 11 && recorder.returns[kJump] == 0 &&
           recorder.dropped == 40 * 11);
    EXPECT(recorder.matched == 40 * 3 && recorder.unmatched == 0);
    EXPECT(run_probetest("signals", 20) == 0);
    EXPECT(recorder.calls[kHandler] == 20 && recorder.returns[kHandler] == 20 &&
           recorder.unmatched == 0);
    EXPECT(run_probetest("far-return") == 0 && run_probetest("bad-return") == 0);
  }
  expect_nothing_left();
}

// Probed return instructions execute while the stack pointer leads to unmapped memory, or to a page
// of data that has not been read yet.
KTEST(user_probes_return_with_another_stack) {
  TestProgram program("/bin/probetest");
  const TestProgram::Function nowhere = program.function("probetest_return_nowhere"),
                              elsewhere = program.function("probetest_return_elsewhere");
  EXPECT(nowhere.return_count == 1 && elsewhere.return_count == 1);
  const UserProbe probes[] = {{nowhere.address, {nowhere.returns, 1}, kLeaf},
                              {elsewhere.address, {elsewhere.returns, 1}, kOuter}};
  Heap<Recorder> on_heap;
  Recorder& recorder = *on_heap;
  recorder.pairs = false;
  const Armed armed(program, recorder, probes);
  EXPECT(run_probetest("bad-return") == 0);
  EXPECT(recorder.calls[kLeaf] == 1 && recorder.returns[kLeaf] == 0);
  EXPECT(run_probetest("far-return") == 0);
  EXPECT(recorder.calls[kOuter] == 1 && recorder.returns[kOuter] == 1 && recorder.good());
}

KTEST(user_probes_fork_exec_exit_kill) {
  Heap<Probetest> program_here;
  Probetest& program = *program_here;
  {
    Heap<Recorder> on_heap;
    Recorder& recorder = *on_heap;
    recorder.pairs = false;
    const Armed armed(program, recorder, program.probes);
    EXPECT(run_probetest("forks", 10) == 0);
    EXPECT(recorder.calls[kOuter] == 20 && recorder.returns[kOuter] == 20 && recorder.ended == 11);
    const uint32_t pid = start_probetest("exec", 5);
    EXPECT(wait_for_probetest(pid) == 0);
    EXPECT(recorder.calls[kOuter] == 30 && recorder.ended == 12 && recorder.became_other == 1 &&
           recorder.last_pid == pid);
    const uint32_t killed = start_probetest("forever");
    while (recorder.calls[kLeaf] < 1000) task_yield();
    EXPECT(process_signal(static_cast<int32_t>(killed), ABI_SIGKILL, {}));
    EXPECT(wait_for_probetest(killed) == ABI_SIGKILL);
    EXPECT(recorder.ended == 13 && recorder.last_pid == killed && recorder.good());
  }
  expect_nothing_left();
}

KTEST(user_probes_leave_own_breakpoints_alone) {
  Heap<Probetest> program_here;
  Probetest& program = *program_here;
  Heap<Recorder> on_heap;
  Recorder& recorder = *on_heap;
  const Armed armed(program, recorder, program.probes);
  EXPECT(run_probetest("int3") == 0);
  EXPECT(recorder.calls[kLeaf] == 0);
  EXPECT(run_probetest("own-code") == 0);
  EXPECT(recorder.calls[kLeaf] == 0 && recorder.good());
}

KTEST(user_probes_watch_memory) {
  Heap<Recorder> on_heap;
  Recorder& recorder = *on_heap;
  user_probes_watch_memory(recorder);
  user_probes_watch_memory(recorder);
  EXPECT(run_probetest("maps", 10) == 0);
  EXPECT(recorder.mapped == 10 && recorder.unmapped == 10 && recorder.ended == 1 &&
         recorder.good());
  user_probes_disarm(recorder);
  EXPECT(run_probetest("maps", 10) == 0);
  EXPECT(recorder.mapped == 10 && recorder.ended == 1);
  expect_nothing_left();
}

// Probes are armed and disarmed while a process of the program runs. Arming and disarming take
// effect in this process.
KTEST(user_probes_come_and_go_in_a_running_program) {
  Heap<Probetest> program_here;
  Probetest& program = *program_here;
  const uint32_t pid = start_probetest("forever");
  Heap<Recorder> first_here, second_here;
  Recorder &first = *first_here, &second = *second_here;
  first.pairs = second.pairs = false;
  for (unsigned i = 0; i < 50; i++) {
    const uint64_t before = first.calls[kLeaf], before_second = second.calls[kLeaf];
    EXPECT(user_probes_arm(first, program.file(), std::span(program.probes).first(1)));
    while (first.calls[kLeaf] < before + 3) task_yield();
    {
      const Armed also(program, second, program.probes);
      while (second.calls[kLeaf] < before_second + 3) task_yield();
      user_probes_disarm(first);
      const uint64_t now = first.calls[kLeaf], now_second = second.calls[kLeaf];
      while (second.calls[kLeaf] < now_second + 3) task_yield();
      EXPECT(first.calls[kLeaf] == now);
    }
    const uint64_t after = second.calls[kLeaf];
    task_yield();
    EXPECT(second.calls[kLeaf] == after);
  }
  EXPECT(first.good() && second.good());
  EXPECT(process_signal(static_cast<int32_t>(pid), ABI_SIGKILL, {}));
  EXPECT(wait_for_probetest(pid) == ABI_SIGKILL);
  expect_nothing_left();
}

// Two tasks arm and disarm probes at random moments, while processes run the probed functions.
KTEST(user_probes_arming_against_running) {
  struct Shared {
    Heap<Probetest> program;
    std::atomic<bool> over{false};
    std::atomic<uint64_t> armed{0}, hits{0};
  } shared;
  Team team(
      [](void* argument) {
        auto& shared = *static_cast<Shared*>(argument);
        while (!shared.over) {
          Heap<Recorder> on_heap;
          Recorder& recorder = *on_heap;
          recorder.pairs = false;
          const size_t first = ktest_random() % kTags;
          const Armed armed(*shared.program, recorder,
                            std::span(shared.program->probes).subspan(first));
          for (unsigned n = ktest_random() % 4; n > 0; n--) task_yield();
          if (!recorder.good()) ktest_fail(__FILE__, __LINE__, "told as it should not be");
          for (const auto& calls : recorder.calls) shared.hits += calls;
          shared.armed++;
        }
      },
      &shared);
  team.add();
  team.add();
  while (shared.armed < 12 || shared.hits < 200) {
    uint32_t pids[4];
    for (uint32_t& pid : pids) pid = start_probetest("mixed", 10);
    for (const uint32_t pid : pids) EXPECT(wait_for_probetest(pid) == 0);
  }
  shared.over = true;
  team.join();
  expect_nothing_left();
}

KTEST(user_probes_on_what_is_not_there) {
  Heap<Probetest> program_here;
  Probetest& program = *program_here;
  Heap<Recorder> on_heap;
  Recorder& recorder = *on_heap;
  const uint64_t leaf = program.functions[kLeaf].address;
  const uint64_t no_return[] = {leaf};
  const UserProbe wrong[] = {
      {leaf + 1, {}, 0}, {0, {}, 0}, {UINT64_MAX, {}, 0}, {leaf, no_return, 0}};
  for (const UserProbe& probe : wrong) {
    const UserProbe both[] = {program.probes[kOuter], probe};
    EXPECT(fails_with(Errno::EINVAL, user_probes_arm(recorder, program.file(), both)));
  }
  EXPECT(user_probes_arm(recorder, program.file(), {}));
  expect_nothing_left();
}

// Makes each allocation of arming fail, one after the other. After each failure no probe is armed,
// and nothing has leaked.
KTEST(user_probes_without_memory) {
  Heap<Probetest> program_here;
  Probetest& program = *program_here;
  Heap<Recorder> recorder_here, other_here;
  Recorder &recorder = *recorder_here, &other = *other_here;
  for (uint64_t skip = 0;; skip++) {
    const auto [result, failed] = [&]() -> std::pair<bool, bool> {
      const OneFails order(skip);
      const Result<void> armed = user_probes_arm(recorder, program.file(), program.probes);
      EXPECT(armed || armed.error() == Errno::ENOMEM);
      return {armed.ok(), OneFails::failed()};
    }();
    EXPECT(result == !failed);
    if (result) {
      EXPECT(skip >= 3);
      break;
    }
    expect_nothing_left();
    EXPECT(recorder.calls[kLeaf] == 0);
  }
  // A failure to add probes to an existing table has no effect either.
  for (uint64_t skip = 0; skip < 2; skip++) {
    const OneFails order(skip);
    EXPECT(fails_with(Errno::ENOMEM, user_probes_arm(other, program.file(), program.probes)));
  }
  EXPECT(run_probetest("calls", 10) == 0);
  EXPECT(recorder.calls[kOuter] == 10 && other.calls[kOuter] == 0);
  user_probes_disarm(recorder);
  user_probes_disarm(recorder);
  user_probes_disarm(other);
  expect_nothing_left();
}
