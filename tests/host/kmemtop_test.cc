// How kmemtop (user/bin/kmemtop) handles the counts of kmemstat, dumps of traces, and the
// terminal's reports of the cursor position.
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kmemtop/cursor_reports.h"
#include "kmemtop/format.h"
#include "kmemtop/sources.h"
#include "kmemtop/stacks.h"
#include "tool/kmemstat.h"

namespace {

using Names = std::vector<std::string>;

KmemstatLine line(const std::string& name, uint64_t allocations, uint64_t frees,
                  const std::string& trace = "off") {
  return {.name = name,
          .object_size = 100,
          .allocated_bytes = 100 * (allocations - frees),
          .live = allocations - frees,
          .allocations = allocations,
          .frees = frees,
          .trace = trace};
}

Names names(const std::vector<const Source*>& sources) {
  Names result;
  for (const Source* source : sources) result.push_back(source->now.name);
  return result;
}

Names sorted(const Sources& sources, SortKey key, SortOrder order = SortOrder::kUsual,
             const std::string& filter = "") {
  return names(sources.sorted(key, order, Which::kAll, filter));
}

TEST(KmemtopSources, RateIsOfTheLastRefreshAndChangeSinceTheStart) {
  Sources sources;
  sources.refresh(10, {line("a", 50, 10)});
  EXPECT_EQ(sources.find("a")->rate, 0);
  sources.refresh(12, {line("a", 60, 15)});
  EXPECT_DOUBLE_EQ(sources.find("a")->rate, 2.5);
  sources.refresh(12.5, {line("a", 60, 17)});
  EXPECT_DOUBLE_EQ(sources.find("a")->rate, -4);
  EXPECT_EQ(sources.find("a")->change(), 3);
  EXPECT_EQ(sources.find("a")->history.last(10), (std::vector<int64_t>{40, 45, 43}));
}

TEST(KmemtopSources, AllOfOneThatComesLaterIsChange) {
  Sources sources;
  sources.refresh(0, {line("a", 5, 0)});
  sources.refresh(1, {line("a", 5, 0), line("b", 7, 0)});
  EXPECT_EQ(sources.find("b")->change(), 7);
  EXPECT_EQ(sources.find("b")->rate, 0);  // the time at which b was created is unknown
}

TEST(KmemtopSources, OneThatGoesIsShownAsGoneForAWhile) {
  Sources sources;
  sources.refresh(0, {line("a", 5, 0), line("b", 1, 0)});
  for (unsigned i = 1; i <= Sources::kGoneShown; i++) {
    sources.refresh(i, {line("b", 1, 0)});
    ASSERT_NE(sources.find("a"), nullptr);
    EXPECT_EQ(sources.find("a")->gone, i);
    EXPECT_EQ(sources.find("a")->rate, 0);
    EXPECT_EQ(sources.count(), 1u);
  }
  sources.refresh(10, {line("b", 1, 0)});
  EXPECT_EQ(sources.find("a"), nullptr);
}

TEST(KmemtopSources, AnotherOneOfTheSameNameBeginsAnew) {
  Sources sources;
  sources.refresh(0, {line("a", 50, 0), line("b", 50, 0)});
  sources.refresh(1, {line("a", 9, 0)});  // fewer allocations than before: a new cache named a
  EXPECT_EQ(sources.find("a")->change(), 9);
  EXPECT_EQ(sources.find("a")->history.last(9), (std::vector<int64_t>{9}));
  sources.refresh(2, {line("a", 9, 0), line("b", 60, 0)});  // no b in the previous refresh
  EXPECT_EQ(sources.find("b")->change(), 60);
  EXPECT_EQ(sources.find("b")->gone, 0u);
}

TEST(KmemtopSources, SortedByEachKey) {
  Sources sources;
  sources.refresh(0, {line("a", 90, 0), line("b", 10, 0), line("c", 50, 0, "never")});
  sources.refresh(1, {line("a", 91, 0), line("b", 15, 0), line("c", 52, 0, "never")});
  EXPECT_EQ(sorted(sources, SortKey::kName), (Names{"a", "b", "c"}));
  EXPECT_EQ(sorted(sources, SortKey::kLive), (Names{"a", "c", "b"}));
  EXPECT_EQ(sorted(sources, SortKey::kBytes), (Names{"a", "c", "b"}));
  EXPECT_EQ(sorted(sources, SortKey::kRate), (Names{"b", "c", "a"}));
  EXPECT_EQ(sorted(sources, SortKey::kChange), (Names{"b", "c", "a"}));
  EXPECT_EQ(sorted(sources, SortKey::kChange, SortOrder::kReversed), (Names{"a", "c", "b"}));
  EXPECT_EQ(sorted(sources, SortKey::kName, SortOrder::kUsual, "b"), Names{"b"});
  EXPECT_EQ(names(sources.sorted(SortKey::kName, SortOrder::kUsual, Which::kTraceable, "")),
            (Names{"a", "b"}));
  EXPECT_EQ(sort_key("rate"), SortKey::kRate);
  EXPECT_EQ(sort_key("size"), std::nullopt);
}

TEST(KmemtopSources, HistoryKeepsTheLast) {
  History history;
  EXPECT_TRUE(history.last(5).empty());
  for (int64_t i = 0; i < 1000; i++) history.add(i);
  EXPECT_EQ(history.last(3), (std::vector<int64_t>{997, 998, 999}));
  EXPECT_EQ(history.last(10'000).size(), History::kLength);
}

TEST(KmemtopFormat, Numbers) {
  EXPECT_EQ(short_count(999'999), "999999");
  EXPECT_EQ(short_count(1'234'567), "1.2M");
  EXPECT_EQ(short_count(999'999'999), "1.0G");
  EXPECT_EQ(short_count(-2'000'000), "-2.0M");
  EXPECT_LE(short_count(INT64_MAX).size(), 8u);
  EXPECT_EQ(short_count(INT64_MIN), "-9.2E");
  EXPECT_EQ(signed_count(12), "+12");
  EXPECT_EQ(signed_count(0), "0");
  EXPECT_EQ(signed_count(-3), "-3");
  EXPECT_EQ(short_bytes(9'999), "9999");
  EXPECT_EQ(short_bytes(10'240), "10.0K");
  EXPECT_EQ(short_bytes(1024 * 1024 - 1), "1.0M");
  EXPECT_EQ(short_bytes(UINT64_MAX), "16.0E");
  EXPECT_EQ(short_rate(0.001), "0");
  EXPECT_EQ(short_rate(-0.25), "-0.25");
  EXPECT_EQ(short_rate(12.34), "+12.3");
  EXPECT_EQ(short_rate(1234.5), "+1235");
  EXPECT_EQ(clock_of(3723.4), "1:02:03");
}

TEST(KmemtopFormat, Columns) {
  EXPECT_EQ(left("ab", 4), "ab  ");
  EXPECT_EQ(right("ab", 4), "  ab");
  EXPECT_EQ(left("abcdef", 4), "abc~");
  EXPECT_EQ(left("abcdef", 0), "");
  EXPECT_EQ(left("a\033[m", 4), "a?[m");
}

TEST(KmemtopFormat, SparkLine) {
  EXPECT_EQ(spark_line(std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6, 7}, 8, Glyphs::kUtf8), "▁▂▃▄▅▆▇█");
  EXPECT_EQ(spark_line(std::vector<int64_t>{0, 7, 0}, 5, Glyphs::kAscii), "  _#_");
  EXPECT_EQ(spark_line(std::vector<int64_t>{5, 5}, 2, Glyphs::kUtf8), "▁▁");
  EXPECT_EQ(spark_line(std::vector<int64_t>{9, 0, 7}, 2, Glyphs::kAscii), "_#");  // shows 0 and 7
  EXPECT_EQ(spark_line({}, 3, Glyphs::kUtf8), "   ");
  EXPECT_EQ(spark_line(std::vector<int64_t>{INT64_MIN, INT64_MAX}, 2, Glyphs::kAscii), "_#");
}

TopStacks stacks_of(const std::string& dump) {
  StackReader reader;
  std::size_t start = 0;
  for (std::size_t end; (end = dump.find('\n', start)) != dump.npos; start = end + 1)
    if (!reader.take(std::string_view(dump).substr(start, end - start))) break;
  return std::move(reader).result();
}

TEST(KmemtopStacks, TheTopOfADump) {
  const TopStacks stacks = stacks_of(
      "kmemtrace leaky state running objsize 192 depth 32 mark 0\n"
      "seen 4 recorded 4 dropped 0 filtered 0 freed 1 cleared 0 live 3 bytes 576 untracked 2 "
      "unmatched 0 stacks 1 stacks_lost 0 contexts_lost 0 truncated 0\n"
      "\n"
      "576 bytes in 3 allocations from stack\n"
      "\tleaky_open+0x22 [kernel]\n"
      "\tsys_open+0xcc [kernel]\n"
      "\tage ms min 0 avg 0 max 0, marks 0, contexts pid 3 leakdemo\n"
      "\tuser stack of pid 3 leakdemo, 576 bytes in 3 allocations, build id e19d\n"
      "\t\t0x4012be [/bin/leakdemo]\n"
      "\t0xffff800000637000 size 192 age 0 mark 0 cpu 0 pid 3 leakdemo\n"
      "\t0xffff8000006370c0 size 192 age 0 mark 0 cpu 0 pid 3 leakdemo\n");
  EXPECT_EQ(stacks.state, "running");
  EXPECT_EQ(stacks.summary, "3 live, 576 bytes, 2 not recorded, 1 stack");
  ASSERT_EQ(stacks.groups.size(), 1u);
  EXPECT_EQ(stacks.groups[0].heading, "576 bytes in 3 allocations from stack");
  EXPECT_EQ(stacks.groups[0].lines,
            (Names{"leaky_open+0x22 [kernel]", "sys_open+0xcc [kernel]",
                   "age ms min 0 avg 0 max 0, marks 0, contexts pid 3 leakdemo",
                   "user stack of pid 3 leakdemo, 576 bytes in 3 allocations"}));
  EXPECT_FALSE(stacks.more);
}

TEST(KmemtopStacks, NotTracedAndCutOff) {
  EXPECT_EQ(stacks_of("kmemtrace chan state off objsize 136\nto trace it: echo start\n").state,
            "off");
  EXPECT_EQ(stacks_of("").state, "");
  EXPECT_EQ(stacks_of("\n\n\t\n").groups.size(), 0u);
}

TEST(KmemtopStacks, OnlySoManyGroups) {
  std::string dump = "kmemtrace a state stopped objsize 1\n";
  for (std::size_t i = 0; i <= StackReader::kMostGroups; i++)
    dump += "\n1 bytes in 1 allocations from stack\n\tf+0x1 [kernel]\n\t0xffff8000 size 1 age 0\n";
  const TopStacks stacks = stacks_of(dump);
  EXPECT_EQ(stacks.groups.size(), StackReader::kMostGroups);
  EXPECT_EQ(stacks.groups.back().lines, Names{"f+0x1 [kernel]"});
  EXPECT_TRUE(stacks.more);
}

struct Taken {
  std::vector<int> typed;
  std::vector<std::pair<int, int>> reports;
};

Taken take(CursorReports& reports, const std::string& keys) {
  Taken taken;
  for (const char key : keys)
    if (const auto report = reports.take(key, taken.typed))
      taken.reports.emplace_back(report->row, report->column);
  return taken;
}

std::vector<int> keys(const std::string& text) {
  return {text.begin(), text.end()};
}

TEST(KmemtopCursorReports, AreTakenOutOfWhatIsTyped) {
  CursorReports reports;
  reports.expect(2);
  const Taken taken = take(reports, "j\033[2;2Rk\033[40;120Rt");
  EXPECT_EQ(taken.typed, keys("jkt"));
  EXPECT_EQ(taken.reports, (std::vector<std::pair<int, int>>{{2, 2}, {40, 120}}));
  EXPECT_FALSE(reports.expecting());
}

TEST(KmemtopCursorReports, WhatIsNoneWasTyped) {
  for (const std::string text : {"\033x", "\033[A", "\033[1;2;3R", "\033[R", "\033[0;5R",
                                 "\033[99999;1R", "\033[5;R", "\033[1;1111111111R"}) {
    CursorReports reports;
    reports.expect(1);
    const Taken taken = take(reports, text);
    EXPECT_EQ(taken.typed, keys(text)) << text;
    EXPECT_TRUE(taken.reports.empty()) << text;
  }
}

TEST(KmemtopCursorReports, AnEscapeIsHeldBackOnlyWhileAnAnswerMayCome) {
  CursorReports reports;
  EXPECT_EQ(take(reports, "\033").typed, keys("\033"));
  reports.expect(1);
  EXPECT_EQ(take(reports, "\033").typed, keys(""));
  std::vector<int> typed;
  reports.drop(typed);
  EXPECT_EQ(typed, keys("\033"));
  EXPECT_EQ(take(reports, "\033").typed, keys("\033"));
}

}  // namespace
