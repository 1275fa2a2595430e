// Tests of the sweep, which removes unused entries from the tables of stacks and contexts. Some
// tests make a sweep step by step. Others make sweeps while CPUs record allocations, and repeatedly
// stop the CPUs at arbitrary instructions, because the host of a virtual machine may do this.

#include <gtest/gtest.h>
#include <signal.h>
#include <time.h>

#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <set>
#include <vector>

#include "fakes/planted.h"
#include "forget_workload.h"
#include "trace_world.h"

namespace {

using Pass = InternTable::Pass;

class ForgetTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(stacks_.open().ok() && contexts_.open().ok()); }
  void TearDown() override {
    TraceWorld::fail_pages(0);
    stacks_.clear();
    contexts_.clear();
    EXPECT_EQ(TraceWorld::pages_out(), 0u);
  }

  StackId kernel(uint64_t number, size_t depth = 3) {
    const std::vector<uint64_t> frames(depth, StackTable::kKernelBase + number * 8);
    return stacks_.intern(StackKind::kKernel, frames.data(), depth);
  }
  StackId user(uint64_t number, size_t depth = 3) {
    const std::vector<uint64_t> frames(depth, 0x400000 + number * 8);
    return stacks_.intern(StackKind::kUser, frames.data(), depth);
  }
  static void sweep(InternTable& table, Pass pass) {
    while (table.sweep(pass)) {
    }
  }
  static void reuse(InternTable& table) {
    while (table.reuse()) {
    }
  }
  template <typename Table, typename Id>
  static void forget(Table& table, const std::vector<Id>& held) {
    table.begin_epoch();
    for (const Id id : held) table.retain(id);
    sweep(table, Pass::kReferring);
    sweep(table, Pass::kReferred);
    reuse(table);
  }

  StackTable stacks_;
  ContextTable contexts_;
};

TEST_F(ForgetTest, APairKeepsItsStacksAndAContextItsProgram) {
  const StackId a = kernel(1), b = user(2), pair = stacks_.intern_pair({a, b});
  const StackId lost = stacks_.intern_pair({kernel(3), b});
  EXPECT_EQ(stacks_.fill().entries, 5u);
  EXPECT_EQ(stacks_.fill().survivors, 0u);
  forget(stacks_, std::vector{pair});
  EXPECT_EQ(stacks_.fill().entries, 3u);
  EXPECT_EQ(stacks_.fill().survivors, 3u);
  EXPECT_EQ(stacks_.size(), 2u);
  EXPECT_EQ(stacks_.split(pair), (StackTable::Pair{a, b}));
  EXPECT_EQ(kernel(1), a);
  EXPECT_EQ(user(2), b);
  EXPECT_EQ(stacks_.find_pair({a, b}), pair);
  EXPECT_NE(kernel(4), lost);

  const ContextId shell = contexts_.intern(ContextKind::kProcess, 7, "sh", {"/bin/sh", {}});
  contexts_.intern(ContextKind::kProcess, 8, "sh", {"/bin/sh", {}});
  contexts_.intern(ContextKind::kProcess, 9, "ls", {"/bin/ls", {}});
  forget(contexts_, std::vector{shell});
  EXPECT_EQ(contexts_.fill().entries, 2u);
  EXPECT_EQ(contexts_.size(), 1u);
  EXPECT_STREQ(contexts_.get(shell)->program->path, "/bin/sh");
  EXPECT_EQ(contexts_.intern(ContextKind::kProcess, 7, "sh", {"/bin/sh", {}}), shell);
  forget(contexts_, std::vector<ContextId>{});
  forget(contexts_, std::vector<ContextId>{});
  EXPECT_EQ(contexts_.fill().entries, 0u);
}

// Entries are looked up or added after begin_epoch(), before the sweep comes to them. The sweep
// keeps these entries.
TEST_F(ForgetTest, WhatIsWantedWhileTheSweepIsUnderWayStays) {
  const StackId first = kernel(1), second = kernel(2), pair = stacks_.intern_pair({first, second});
  const StackId third = kernel(3), other = stacks_.intern_pair({first, third});
  const StackId fourth = kernel(4);
  stacks_.begin_epoch();
  EXPECT_EQ(stacks_.find_pair({first, second}), pair);
  const StackId added = kernel(5);
  sweep(stacks_, Pass::kReferring);
  EXPECT_EQ(stacks_.find_pair({first, third}), StackId::kNone) << "it was swept";
  EXPECT_EQ(kernel(3), third) << "this was not yet";
  const StackId again = stacks_.intern_pair({first, third});
  EXPECT_NE(again, other) << "before its place can be used";
  sweep(stacks_, Pass::kReferred);
  EXPECT_NE(kernel(4), fourth);
  reuse(stacks_);
  EXPECT_EQ(kernel(1), first);
  EXPECT_EQ(kernel(2), second);
  EXPECT_EQ(kernel(3), third);
  EXPECT_EQ(kernel(5), added);
  EXPECT_EQ(stacks_.split(again), (StackTable::Pair{first, third}));
  EXPECT_EQ(kernel(6), fourth) << "the place is used again";
}

TEST_F(ForgetTest, NoPlaceIsUsedAgainBeforeItMayBe) {
  std::set<StackId> swept;
  for (uint64_t i = 0; i < 1000; i++) swept.insert(kernel(i));
  stacks_.begin_epoch();
  sweep(stacks_, Pass::kReferring);
  sweep(stacks_, Pass::kReferred);
  EXPECT_EQ(stacks_.size(), 0u);
  for (uint64_t i = 1000; i < 2000; i++) ASSERT_FALSE(swept.contains(kernel(i)));
  const uint32_t end = stacks_.end();
  reuse(stacks_);
  EXPECT_GE(stacks_.fill().bytes_free, 1000u * 40);
  for (uint64_t i = 2000; i < 3000; i++) ASSERT_TRUE(swept.contains(kernel(i)));
  EXPECT_EQ(stacks_.end(), end);
  EXPECT_EQ(stacks_.fill().bytes_held, (TraceWorld::pages_out() - 3) * kPageSize)
      << "three are the other table's";
}

// The test holds (retains) some entries in each epoch. A held entry keeps its number, and different
// held entries have different numbers. The table takes at most two pages more after 3,000 epochs
// than after 500.
TEST_F(ForgetTest, ThousandsOfEpochsLaterEachNumberHasItsMeaningAndMemoryIsWhatItWas) {
  using Key = std::pair<bool, std::pair<uint64_t, size_t>>;  // {is a user stack, {number, depth}}
  std::mt19937_64 random(1);
  std::map<Key, StackId> held;
  uint64_t pages_after_hundreds = 0;
  for (int epoch = 0; epoch < 3000; epoch++) {
    for (int i = 0; i < 40; i++) {
      const Key key = {random() % 2 == 0, {random() % 500, 1 + random() % 12}};
      const auto [number, depth] = key.second;
      const StackId id = key.first ? user(number, depth) : kernel(number, depth);
      const auto [at, added] = held.emplace(key, id);
      ASSERT_EQ(at->second, id);
      const StackTable::View view = stacks_.view(id);
      ASSERT_EQ(view.size(), depth);
      ASSERT_EQ(view[depth - 1], (key.first ? 0x400000 : StackTable::kKernelBase) + number * 8);
    }
    for (auto at = held.begin(); at != held.end();) {
      at = random() % 4 == 0 ? held.erase(at) : std::next(at);
    }
    std::vector<StackId> ids;
    for (const auto& [key, id] : held) ids.push_back(id);
    ASSERT_EQ(std::set<StackId>(ids.begin(), ids.end()).size(), ids.size());
    forget(stacks_, ids);
    ASSERT_EQ(stacks_.size(), held.size());
    if (epoch == 500) pages_after_hundreds = TraceWorld::pages_out();
  }
  EXPECT_LE(TraceWorld::pages_out(), pages_after_hundreds + 2);
}

// The table gets more chain heads as entries are added, but a chain is split only when
// intern_pair() locks it. Until then, find_pair(), which takes no lock, may miss a pair. So the
// test interns each pair again before it calls find_pair().
TEST_F(ForgetTest, HeadsGrowWithTheEntriesAndAllAreFound) {
  constexpr uint32_t kStacks = 60'000;
  std::vector<StackId> pairs;
  const StackId stack = kernel(1);
  // The keys are shuffled, because the hashes of consecutive keys are spread so evenly that every
  // chain would be split early.
  std::vector<uint32_t> users(kStacks);
  std::iota(users.begin(), users.end(), 1);
  std::shuffle(users.begin(), users.end(), std::mt19937(1));
  for (const uint32_t user : users) pairs.push_back(stacks_.intern_pair({stack, StackId{user}}));
  const uint64_t heads = TraceWorld::pages_out();
  for (uint32_t i = 0; i < kStacks; i++)
    ASSERT_EQ(stacks_.intern_pair({stack, StackId{users[i]}}), pairs[i]);
  for (uint32_t i = 0; i < kStacks; i++)
    ASSERT_EQ(stacks_.find_pair({stack, StackId{users[i]}}), pairs[i]);
  EXPECT_GT(heads, 2u + 60 + kStacks * 32 / kPageSize) << "32,768 heads or more";
  EXPECT_EQ(std::set<StackId>(pairs.begin(), pairs.end()).size(), kStacks);
}

// If no further page can be allocated, the table divides large free slots for new, smaller entries.
// All entries are found.
TEST_F(ForgetTest, WithoutMemoryLargerPlacesAreDivided) {
  std::vector<StackId> deep;
  for (uint64_t i = 0; i < 500; i++) deep.push_back(kernel(i, 60));
  const StackId kept = kernel(1000, 2);
  TraceWorld::fail_pages(100);
  for (uint64_t i = 2000; kernel(i, 60) != StackId::kNone; i++) {
  }
  forget(stacks_, std::vector{kept});
  const uint64_t free = stacks_.fill().bytes_free;
  EXPECT_GT(free, 500u * 60 * 4);
  uint32_t added = 0;
  while (kernel(10'000 + added, 2) != StackId::kNone) added++;
  // An entry of 60 frames had a slot of 34 * 8 bytes, an entry of two frames needs 5 * 8 bytes. So
  // a free slot is divided into six slots for new entries, and a rest of 4 * 8 bytes.
  EXPECT_GT(added, free / 40 * 8 / 10);
  EXPECT_LT(stacks_.fill().bytes_free, free / 5);
  for (uint32_t i = 0; i < added; i++) ASSERT_NE(kernel(10'000 + i, 2), StackId::kNone);
  EXPECT_EQ(kernel(1000, 2), kept);
  EXPECT_EQ(stacks_.size(), added + 1);
}

// ---- With CPUs that are stopped at arbitrary instructions.

void stop_for_a_while(int) {
  const timespec time = {.tv_sec = 0, .tv_nsec = 100'000};
  nanosleep(&time, nullptr);
}

void stop_threads(const ForgetWorkload& workload, const std::vector<pthread_t>& threads) {
  struct sigaction action = {};
  action.sa_handler = stop_for_a_while;
  sigaction(SIGUSR1, &action, nullptr);
  for (std::minstd_rand random(1); !workload.done(); std::this_thread::yield()) {
    if (workload.sweeping()) pthread_kill(threads[random() % threads.size()], SIGUSR1);
  }
}

void live(unsigned epochs) {
  const auto workload = std::make_unique<ForgetWorkload>(400, 1'000'000);
  ASSERT_TRUE(workload->open());
  workload->run(epochs, stop_threads);
  workload->check_at_rest();
  workload->close();
}

TEST(ForgetCpus, WhereverTheyAreStoppedNoNumberChangesItsMeaning) {
  live(15);
  EXPECT_EQ(TraceWorld::pages_out(), 0u);
}

// Long tests, which exist only if FORGET_BUGS is in the environment. forget_bugs_test.py sets
// FORGET_BUGS and runs these tests.
class ForgetDeathTest : public testing::TestWithParam<Planted> {};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(ForgetDeathTest);

std::vector<Planted> bugs() {
  if (!getenv("FORGET_BUGS")) return {};
  return {Planted::kSweepNoSecondLook, Planted::kSweepEarlyReuse};
}

TEST_P(ForgetDeathTest, ASweepWithABugIsFound) {
  EXPECT_DEATH(
      {
        wake(GetParam());
        live(1'000'000);
      },
      "wrong: |alive");
}

INSTANTIATE_TEST_SUITE_P(Planted, ForgetDeathTest, testing::ValuesIn(bugs()));

}  // namespace
