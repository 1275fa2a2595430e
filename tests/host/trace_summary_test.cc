#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <vector>

#include "trace/dump/summary_impl.h"
#include "trace_tables.h"
#include "trace_world.h"

namespace {

std::vector<std::string> lines;

class TraceSummaryTest : public TraceTables<2> {
 protected:
  void SetUp() override {
    TraceTables::SetUp();
    lines.clear();
  }

  void record(size_t table, uint64_t size, StackId stack) {
    objects_++;
    TraceTables::record(table, 64 * objects_, size, stack, ContextId::kNone, {},
                        CpuId{static_cast<uint32_t>(objects_ % 16)});
  }
  std::vector<std::string> print(unsigned top) {
    lines.clear();
    summary_.print(top, stacks_, [](const char* text) { lines.emplace_back(text); });
    return lines;
  }

  uint64_t objects_ = 0;
  TraceSummary summary_;
};

TEST_F(TraceSummaryTest, MostBytesFirst) {
  const StackId a = stack({0x10, 0x20}), b = stack({0x30}), c = stack({0x40});
  for (int i = 0; i < 3; i++) record(0, 100, a);
  record(0, 1000, b);
  record(1, 10, b);
  record(1, 20, c);
  record(1, 5, StackId::kNone);
  summary_.add("pipe", *tables_[0]);
  summary_.add("chan", *tables_[1]);
  EXPECT_EQ(summary_.total().objects, 7u);
  EXPECT_EQ(summary_.total().bytes, 1335u);
  EXPECT_EQ(summary_.tables(), 2u);
  EXPECT_EQ(print(2),
            (std::vector<std::string>{
                "  1000 bytes in 1 allocations of pipe from stack", "    f30+0x1 [kernel]",
                "  300 bytes in 3 allocations of pipe from stack", "    f10+0x1 [kernel]",
                "    f20+0x1 [kernel]", "  others: 35 bytes in 3 allocations from 3 stacks"}));
  EXPECT_EQ(print(9), (std::vector<std::string>{
                          "  20 bytes in 1 allocations of chan from stack", "    f40+0x1 [kernel]",
                          "  10 bytes in 1 allocations of chan from stack", "    f30+0x1 [kernel]",
                          "  5 bytes in 1 allocations of chan from stack",
                          "    the stack was not recorded"}));
  summary_.clear();
  EXPECT_EQ(summary_.total().objects, 0u);
  EXPECT_TRUE(print(9).empty());
}

// Stacks are sorted by estimated bytes: the 128 recorded bytes of a sampled trace, which represent
// 1,089 bytes, come before 500 bytes of a trace without sampling.
TEST_F(TraceSummaryTest, SampledTracesCountAsTheyAreEstimated) {
  TraceOptions options;
  options.sample = 512;
  tables_[1]->set_options(options);
  record(0, 500, stack({0x10}));
  for (int i = 0; i < 2; i++) record(1, 64, stack({0x20}));
  summary_.add("pipe", *tables_[0]);
  summary_.add("chan", *tables_[1]);
  EXPECT_EQ(
      print(2),
      (std::vector<std::string>{
          "  128 bytes in 2 allocations recorded (estimated 1089 bytes in 17) of chan from stack",
          "    f20+0x1 [kernel]", "  500 bytes in 1 allocations of pipe from stack",
          "    f10+0x1 [kernel]"}));
}

TEST_F(TraceSummaryTest, WhatIsLockedIsSaidToBe) {
  for (int i = 0; i < 1000; i++) record(0, 1, stack({0x10}));
  bool nested = false;
  EXPECT_TRUE(tables_[0]->try_visit(3, [&](const TraceRecord&) {
    if (nested) return;
    nested = true;
    EXPECT_FALSE(tables_[0]->try_visit(3, [](const TraceRecord&) { ADD_FAILURE(); }));
    summary_.add("pipe", *tables_[0]);
  }));
  EXPECT_EQ(summary_.locked_shards(), 1u);
  EXPECT_LT(summary_.total().objects, 1000u);
  EXPECT_EQ(print(1).back(), "  not known: 1 of 64 parts of the traces were locked");
  summary_.clear();
  summary_.add("pipe", *tables_[0]);
  EXPECT_EQ(summary_.total().objects, 1000u);
}

TEST_F(TraceSummaryTest, WhatIsLockedIsReadWhereEverybodyStandsStill) {
  for (int i = 0; i < 1000; i++) record(0, 1, stack({0x10}));
  bool nested = false;
  EXPECT_TRUE(tables_[0]->try_visit(3, [&](const TraceRecord&) {
    if (nested) return;
    nested = true;
    summary_.add("pipe", *tables_[0], TraceSummary::Others::kStandStill);
  }));
  EXPECT_EQ(summary_.locked_shards(), 0u);
  EXPECT_EQ(summary_.standing_shards(), 1u);
  EXPECT_EQ(summary_.total().objects, 1000u);
  EXPECT_EQ(print(1).back(),
            "  1 of 64 parts of the traces were being changed: one record of each may be wrong");
}

// There are more stacks than the 2,048 slots of the summary. The three largest stacks are still
// found, and every byte is counted.
TEST_F(TraceSummaryTest, ManyStacks) {
  std::mt19937 random(1);
  std::map<StackId, TraceSummary::Sum> truth;
  std::vector<StackId> many, large;
  for (uint64_t i = 0; i < 10'000; i++) many.push_back(stack({i}));
  for (uint64_t i = 0; i < 3; i++) large.push_back(stack({20'000 + i}));
  for (int i = 0; i < 60'000; i++) {
    const bool is_large = random() % 10 == 0;
    const StackId which = is_large ? large[random() % 3] : many[random() % many.size()];
    const uint32_t size = 1 + random() % 100;
    record(0, size, which);
    truth[which] += {.objects = 1, .bytes = size};
  }
  summary_.add("pipe", *tables_[0]);
  const std::vector<std::string> said = print(3);
  TraceSummary::Sum sum = {};
  unsigned found = 0;
  for (size_t i = 0; i < said.size(); i++) {
    unsigned long bytes, objects;
    if (sscanf(said[i].c_str(), "  %lu bytes in %lu allocations of", &bytes, &objects) == 2) {
      sum += {.objects = objects, .bytes = bytes};
      for (uint64_t l = 0; l < 3; l++) {
        char frame[32];
        snprintf(frame, sizeof(frame), "    f%lx+0x1 [kernel]", (20'000 + l) & 0xfff);
        if (said[i + 1] != frame) continue;
        found++;
        EXPECT_LE(bytes, truth[large[l]].bytes);
        EXPECT_GT(bytes, truth[large[l]].bytes * 9 / 10);
      }
    }
    if (sscanf(said[i].c_str(), "  others: %lu bytes in %lu allocations", &bytes, &objects) == 2)
      sum += {.objects = objects, .bytes = bytes};
  }
  EXPECT_EQ(found, 3u);
  EXPECT_EQ(sum.objects, summary_.total().objects);
  EXPECT_EQ(sum.bytes, tables_[0]->counters().bytes);
  EXPECT_EQ(said.back(),
            "  there are more than 2048 stacks: some of the others may be from those above");
}

TEST_F(TraceSummaryTest, DeepStacksAreCut) {
  std::vector<uint64_t> frames(40);
  for (size_t i = 0; i < frames.size(); i++) frames[i] = i;
  record(0, 1, stack(frames));
  summary_.add("pipe", *tables_[0]);
  const std::vector<std::string> said = print(1);
  EXPECT_EQ(said.size(), 1 + TraceSummary::kFramesShown + 1);
  EXPECT_EQ(said.back(), "    ... 16 more");
}

}  // namespace
