#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "intern/stack_table.h"
#include "trace_world.h"

namespace {

using Frames = std::vector<uint64_t>;
using Key = std::pair<StackKind, Frames>;

Key random_stack(std::mt19937_64& random) {
  const StackKind kind = random() % 4 == 0 ? StackKind::kUser : StackKind::kKernel;
  // There are only four different frames of each kind, so that many stacks begin or end alike.
  const uint64_t base = kind == StackKind::kKernel ? StackTable::kKernelBase + 0x100000 : 0x400000;
  Frames frames(random() % 6 == 0 ? random() % (StackTable::kMaxFrames + 1) : random() % 8);
  for (uint64_t& frame : frames) frame = base + random() % 4 * 16;
  return {kind, frames};
}

StackId intern(StackTable& table, const Key& key) {
  return table.intern(key.first, key.second.data(), key.second.size());
}

Key stored(const StackTable& table, StackId id) {
  const StackTable::View view = table.view(id);
  Frames frames;
  for (size_t i = 0; i < view.size(); i++) frames.push_back(view[i]);
  return {view.kind(), frames};
}

class StackTableTest : public testing::Test {
 protected:
  void TearDown() override {
    TraceWorld::fail_pages(0);
    table_.clear();
    EXPECT_EQ(TraceWorld::pages_out(), 0u);
  }
  StackTable table_;
};

TEST_F(StackTableTest, EachStackHasOneNumberThatKeepsItsMeaning) {
  ASSERT_TRUE(table_.open().ok());
  std::mt19937_64 random(1);
  std::map<Key, StackId> model;
  std::set<StackId> numbers;
  for (int i = 0; i < 60'000; i++) {
    const Key key = random_stack(random);
    const StackId id = intern(table_, key);
    ASSERT_NE(id, StackId::kNone);
    const auto [at, added] = model.emplace(key, id);
    ASSERT_EQ(at->second, id);
    ASSERT_EQ(numbers.insert(id).second, added);
    ASSERT_EQ(table_.size(), model.size());
  }
  ASSERT_GT(model.size(), 5'000u);
  for (const auto& [key, id] : model) ASSERT_EQ(stored(table_, id), key);
}

TEST_F(StackTableTest, KernelAndUserStacksOfEqualWordsAreDifferent) {
  ASSERT_TRUE(table_.open().ok());
  // In the table, a kernel frame takes one word and a user frame takes two words. The two words of
  // this user frame are equal to the words of the two kernel frames.
  const uint64_t kernel[] = {StackTable::kKernelBase + 0x1000, StackTable::kKernelBase + 0x20};
  const uint64_t user[] = {uint64_t{0x80000020} << 32 | 0x80001000};
  const StackId a = table_.intern(StackKind::kKernel, kernel, 2);
  const StackId b = table_.intern(StackKind::kUser, user, 1);
  EXPECT_NE(a, b);
  EXPECT_EQ(table_.view(b)[0], user[0]);
}

TEST_F(StackTableTest, APairHasOneNumberAndIsNoStack) {
  ASSERT_TRUE(table_.open().ok());
  const uint64_t kernel[] = {StackTable::kKernelBase + 0x1000};
  const uint64_t user[] = {0x401000}, other[] = {0x402000};
  const StackId k = table_.intern(StackKind::kKernel, kernel, 1);
  const StackId u = table_.intern(StackKind::kUser, user, 1);
  const StackId o = table_.intern(StackKind::kUser, other, 1);
  EXPECT_EQ(table_.find_pair({k, u}), StackId::kNone);
  const StackId pair = table_.intern_pair({k, u});
  EXPECT_EQ(table_.intern_pair({k, u}), pair);
  EXPECT_EQ(table_.find_pair({k, u}), pair);
  EXPECT_NE(table_.intern_pair({k, o}), pair);
  EXPECT_NE(table_.intern_pair({u, k}), pair);
  EXPECT_EQ(table_.view(pair).kind(), StackKind::kPair);
  EXPECT_EQ(table_.split(pair), (StackTable::Pair{k, u}));
  EXPECT_EQ(table_.split(k), (StackTable::Pair{k, StackId::kNone}));
  EXPECT_EQ(table_.split(u), (StackTable::Pair{u, StackId::kNone}));
  EXPECT_EQ(table_.split(StackId::kNone), (StackTable::Pair{StackId::kNone, StackId::kNone}));
  EXPECT_EQ(table_.size(), 3u) << "stacks";
  EXPECT_GT(table_.end(), number_of(pair));
  // The table stores this kernel stack and this user stack in the same words as the pair. The table
  // must still tell them from the pair.
  const uint64_t words[] = {StackTable::unpacked(number_of(k)), StackTable::unpacked(number_of(u))};
  const uint64_t word[] = {uint64_t{number_of(u)} << 32 | number_of(k)};
  EXPECT_NE(table_.intern(StackKind::kKernel, words, 2), pair);
  EXPECT_NE(table_.intern(StackKind::kUser, word, 1), pair);
}

// Two stacks of the maximum length that differ only in their last frame have different numbers.
TEST_F(StackTableTest, UserStacksAreKeptToTheLastFrame) {
  ASSERT_TRUE(table_.open().ok());
  Frames frames(StackTable::kMaxFrames, 0x7fff00001000);
  const StackId a = table_.intern(StackKind::kUser, frames.data(), frames.size());
  frames.back() += 0x100000000;
  const StackId b = table_.intern(StackKind::kUser, frames.data(), frames.size());
  EXPECT_NE(a, b);
  EXPECT_EQ(stored(table_, b), Key(StackKind::kUser, frames));
}

TEST_F(StackTableTest, WhatIsTooDeepIsCut) {
  ASSERT_TRUE(table_.open().ok());
  const Frames deep(StackTable::kMaxFrames + 20, StackTable::kKernelBase + 0x40);
  const StackId id = table_.intern(StackKind::kKernel, deep.data(), deep.size());
  EXPECT_EQ(table_.view(id).size(), StackTable::kMaxFrames);
}

TEST_F(StackTableTest, NumberZeroIsNoStack) {
  ASSERT_TRUE(table_.open().ok());
  EXPECT_FALSE(table_.view(StackId::kNone));
}

TEST_F(StackTableTest, WithoutMemoryStacksAreLostAndTheOthersStay) {
  ASSERT_TRUE(table_.open().ok());
  std::mt19937_64 random(2);
  std::map<Key, StackId> model;
  unsigned lost = 0;
  for (int i = 0; i < 60'000; i++) {
    if (i % 1000 == 0) TraceWorld::fail_pages(i % 4000 == 0 ? 0 : i % 3000 == 0 ? 100 : 70);
    const Key key = random_stack(random);
    const StackId id = intern(table_, key);
    if (id == StackId::kNone) {
      ASSERT_FALSE(model.contains(key)) << "a stack that is there is found without memory";
      lost++;
      continue;
    }
    ASSERT_EQ(model.emplace(key, id).first->second, id);
    ASSERT_EQ(stored(table_, id), key);
  }
  EXPECT_GT(lost, 0u);
  EXPECT_EQ(table_.size(), model.size());
}

TEST_F(StackTableTest, OpeningWithoutMemoryLeavesNothingBehind) {
  for (unsigned percent = 100; percent > 0; percent -= 20) {
    TraceWorld::fail_pages(percent);
    if (const Result<void> opened = table_.open(); !opened) {
      EXPECT_EQ(opened.error(), Errno::ENOMEM);
      EXPECT_EQ(TraceWorld::pages_out(), 0u);
    } else {
      table_.clear();
    }
  }
}

TEST_F(StackTableTest, CanBeEmptiedAndUsedAgain) {
  for (int round = 0; round < 3; round++) {
    ASSERT_TRUE(table_.open().ok());
    std::mt19937_64 random(3);
    for (int i = 0; i < 2'000; i++) ASSERT_NE(intern(table_, random_stack(random)), StackId::kNone);
    table_.clear();
    EXPECT_EQ(TraceWorld::pages_out(), 0u);
    EXPECT_EQ(table_.size(), 0u);
  }
}

TEST_F(StackTableTest, CpusThatAddTheSameStacksAgreeOnTheirNumbers) {
  ASSERT_TRUE(table_.open().ok());
  constexpr int kThreads = 4;
  std::vector<std::map<Key, StackId>> models(kThreads);
  std::vector<std::thread> threads;
  for (auto& model : models) {
    threads.emplace_back([this, &model] {
      std::mt19937_64 random(4);
      for (int i = 0; i < 20'000; i++) {
        const Key key = random_stack(random);
        const StackId id = intern(table_, key);
        if (model.emplace(key, id).first->second != id || stored(table_, id) != key) ADD_FAILURE();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& model : models) EXPECT_EQ(model, models[0]);
  EXPECT_EQ(table_.size(), models[0].size());
}

}  // namespace
