// Waiting in several queues at once: no wake-up is lost, and no queue keeps a waiter that has left.
#include <atomic>

#include "arch/x86_64/time.h"
#include "core/ktest.h"
#include "ns/namespace.h"
#include "sched/task.h"
#include "tests/ns_world.h"
#include "tests/team.h"

namespace {

constexpr Nanoseconds kPatience{20'000'000'000};

// Two tokens circulate among four pollers, which are spread over the CPUs. Each poller waits in two
// queues: in its own queue for a token, and in `noise`, which is woken continually without reason.
struct Stage {
  Spinlock lock{LockRank::kDevice};
  bool token GUARDED_BY(lock) = false;
  WaitQueue arrived;
};
constexpr unsigned kStages = 4;
struct Round {
  Stage stages[kStages];
  WaitQueue noise;
  std::atomic<unsigned> next_stage{0};
  uint64_t wanted = 0;
  std::atomic<uint64_t> passed{0}, given_up{0};
};
bool take_token(Stage& stage) {
  const Guard guard(stage.lock);
  return std::exchange(stage.token, false);
}

void give_token(Stage& stage) {
  const Guard guard(stage.lock);
  stage.token = true;
  stage.arrived.wake_all();
}

// Returns false if no token has come within kPatience.
bool wait_for_token(Round& round, Stage& stage) {
  Poller poller;
  PollWaiter token(poller), noise(poller);
  token.wait_on(stage.arrived);
  noise.wait_on(round.noise);
  const Nanoseconds deadline = monotonic_now() + kPatience;
  for (;;) {
    if (token.take_woken() && take_token(stage)) return true;
    static_cast<void>(noise.take_woken());
    if (const Result<void> slept = poller.sleep(deadline); !slept) return take_token(stage);
  }
}

void pass_tokens(void* argument) {
  auto& round = *static_cast<Round*>(argument);
  const unsigned index = round.next_stage++;
  Stage& mine = round.stages[index];
  Stage& next = round.stages[(index + 1) % kStages];
  while (round.passed < round.wanted) {
    if (!wait_for_token(round, mine)) {
      round.given_up++;
      round.passed = round.wanted;
    }
    round.passed++;
    if (index == 0) round.noise.wake_all();
    give_token(next);
  }
  give_token(next);  // the next stage may still wait for a token
}

}  // namespace

KTEST(poll_loses_no_wakeup) {
  static Round round;
  round.next_stage = 0;
  round.wanted = ktest_option("poll_passes", 20'000);
  round.passed = 0;
  round.given_up = 0;
  for (Stage& stage : round.stages) static_cast<void>(take_token(stage));
  Team team(pass_tokens, &round);
  for (unsigned i = 0; i < kStages; i++) team.add(CpuId{i % cpu_count()});
  give_token(round.stages[0]);
  give_token(round.stages[2]);
  team.join();
  EXPECT(round.given_up == 0);
  EXPECT(round.passed >= round.wanted);
}

// A write to a pipe, and closing its writing end, wake pollers of the reading end. A read wakes
// pollers of the writing end.
KTEST(poll_is_woken_by_pipes) {
  LiveCounts live;
  Result<PipeEnds> made = pipe_create();
  EXPECT(made);
  if (!made) return;
  PipeEnds ends = made.take();
  Device& device = *ends.reader->device;
  Poller poller;
  const Nanoseconds soon = monotonic_now() + Nanoseconds{20'000'000};
  {
    PollWaiter reading(poller), writing(poller);
    EXPECT(reading.take_woken() && device.poll(*ends.reader, &reading) == 0);
    EXPECT(writing.take_woken() && device.poll(*ends.writer, &writing) == ABI_POLLOUT);
    EXPECT(fails_with(Errno::ETIMEDOUT, poller.sleep(Nanoseconds{1})));
    EXPECT(poller.sleep(soon) && fails_with(Errno::ETIMEDOUT, poller.sleep(soon)));
    EXPECT(!reading.take_woken() && !writing.take_woken());
    EXPECT(device.write(*ends.writer, "x", 1, 0));
    EXPECT(poller.sleep(soon) && reading.take_woken() && !writing.take_woken());
    EXPECT(device.poll(*ends.reader, nullptr) == ABI_POLLIN);
    char byte;
    EXPECT(device.read(*ends.reader, &byte, 1, 0));
    EXPECT(poller.sleep(soon) && !reading.take_woken() && writing.take_woken());
    ends.writer.reset();
    EXPECT(poller.sleep(soon) && reading.take_woken());
    EXPECT(device.poll(*ends.reader, nullptr) == ABI_POLLHUP);
  }
  ends.reader.reset();
}
