// Counts of frees by the stacks that allocated and freed (trace/record/free_counts_impl.h).
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <unordered_map>
#include <utility>

#include "fakes/spinlock.h"
#include "intern/shared_tables.h"
#include "trace_tables.h"
#include "trace_world.h"

namespace {

using Counts = std::map<std::pair<StackId, StackId>, uint64_t>;

class TraceFreesTest : public TraceTables<1> {
 protected:
  void SetUp() override {
    TraceTables::SetUp();
    ASSERT_TRUE(table().make_free_counts());
    table().set_options({.frees = true});
  }
  void TearDown() override {
    TraceWorld::fail_pages(0);
    TraceTables::TearDown();
  }
  TraceTable& table() { return *tables_[0]; }
  Counts counted() {
    Counts counts;
    table().free_counts()->visit([&](StackId allocated_by, StackId freed_by, uint64_t frees) {
      counts[{allocated_by, freed_by}] += frees;
    });
    return counts;
  }

  // Allocates and frees at random, `operations` times, on all CPUs. Frees without a record, and
  // frees whose stack could not be stored, are in no pair.
  void work(int operations) {
    for (int i = 0; i < operations; i++) {
      const uint64_t object = (1 + random_() % 500) * 64;
      const CpuId cpu{static_cast<uint32_t>(random_() % table().shards())};
      const auto at = live_.find(object);
      if (at == live_.end()) {
        const StackId stack{static_cast<uint32_t>(1 + random_() % 300)};
        const uint64_t dropped = table().counters().dropped;
        record(0, object, 8, stack, ContextId::kNone, {}, cpu);
        if (table().counters().dropped == dropped) live_[object] = stack;
      } else {
        const StackId freed_by{static_cast<uint32_t>(random_() % 300)};
        const uint64_t address = 0xffff800000000000 + object;
        ASSERT_FALSE(table().forget_at_once(address, cpu));
        table().forget(address, cpu, freed_by);
        if (freed_by == StackId::kNone) {
          without_stack_++;
        } else {
          expected_[{at->second, freed_by}]++;
        }
        live_.erase(at);
      }
      if (i % 100 == 0) table().forget(0xffff8000ffff0000, cpu, StackId{1});
    }
  }

  std::mt19937_64 random_{1};
  std::unordered_map<uint64_t, StackId> live_;  // the stack of each object
  Counts expected_;
  uint64_t without_stack_ = 0;
};

// Would find a free that is counted for another stack, twice, or not at all.
TEST_F(TraceFreesTest, EachFreeCountsForBothStacks) {
  work(15'000);
  EXPECT_EQ(counted(), expected_);
  EXPECT_EQ(table().free_counts()->lost(), without_stack_);
  table().set_options({});
  EXPECT_EQ(table().free_counts(), nullptr);
}

TEST_F(TraceFreesTest, WithoutMemoryFreesAreSaidToBeLost) {
  work(1'000);
  TraceWorld::fail_pages(50);
  work(20'000);
  uint64_t sum = 0;
  for (const auto& [stacks, frees] : counted()) {
    EXPECT_LE(frees, expected_[stacks]);
    sum += frees;
  }
  EXPECT_EQ(sum + table().free_counts()->lost(), table().counters().freed);
  EXPECT_GT(table().free_counts()->lost(), without_stack_);
}

// Another CPU frees an object while a sweep visits the table: after trim(), and before the walk
// comes to the object's record. The stack of the allocation moves from the record to the counts of
// frees, so a sweep that visited the counts first would forget it.
struct FreedInASweep {
  TraceTable* table;
  StackTable* stacks;
  StackId freed_by;
  unsigned unlocks;
};

FreedInASweep freed_in_a_sweep;

void free_in_the_walk() {
  FreedInASweep& it = freed_in_a_sweep;
  if (it.unlocks++ < it.table->shards()) return at_next_unlock(free_in_the_walk);
  it.stacks->retain(it.freed_by);  // the hook looks it up
  it.table->forget(0xffff800000009000, CpuId{1}, it.freed_by);
}

TEST_F(TraceFreesTest, ASweepRetainsAStackThatMovesFromARecordToTheCounts) {
  ASSERT_TRUE(table().make_free_counts());
  table().set_options({.frees = true});
  const StackId allocated_by = stack({0x10}), freed_by = stack({0x20});
  record(0, 0x9000, 8, allocated_by, ContextId::kNone, {900}, CpuId{5});
  stacks_.begin_epoch();
  freed_in_a_sweep = {&table(), &stacks_, freed_by, 0};
  at_next_unlock(free_in_the_walk);
  Retained retained(stacks_, contexts_);
  table().names().retain(retained);
  ASSERT_EQ(table().counters().freed, 1u);
  for (const auto pass : {InternTable::Pass::kReferring, InternTable::Pass::kReferred})
    while (stacks_.sweep(pass)) {
    }
  while (stacks_.reuse()) {
  }
  EXPECT_EQ(stacks_.size(), 2u);
  EXPECT_NE(stack({0x30}), allocated_by);
  EXPECT_EQ(stack({0x10}), allocated_by);
}

}  // namespace
