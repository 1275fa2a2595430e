// The parts of stackcount that can run on the host: pattern matching and the printing of counts.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>

#include "stackcount/counts.h"
#include "stackcount/pattern.h"
#include "stackcount/report.h"

namespace {

using Parts = std::pair<std::string, std::string>;

Parts parsed(const char* text) {
  const Pattern pattern = parse_pattern(text);
  return {pattern.program, pattern.function};
}

std::string refused(const char* text) {
  try {
    parse_pattern(text);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

TEST(StackcountPattern, KernelAndProgram) {
  EXPECT_EQ(parsed("pipe_create"), Parts("", "pipe_create"));
  EXPECT_EQ(parsed("p::pipe_create"), Parts("", "pipe_create"));
  EXPECT_EQ(parsed("PipeDevice::read"), Parts("", "PipeDevice::read"));
  EXPECT_EQ(parsed("p::PipeDevice::read"), Parts("", "PipeDevice::read"));
  EXPECT_EQ(parsed("c:malloc"), Parts("c", "malloc"));
  EXPECT_EQ(parsed("p:c:malloc"), Parts("c", "malloc"));
  EXPECT_EQ(parsed("memleak:Traces::start"), Parts("memleak", "Traces::start"));
  EXPECT_EQ(parsed("/bin/busybox:main"), Parts("/bin/busybox", "main"));
}

TEST(StackcountPattern, WhatIsNotThere) {
  EXPECT_NE(refused("t:sched:sched_switch").find("no kernel tracepoints"), std::string::npos);
  EXPECT_NE(refused("u:pthread:pthread_create").find("no USDT tracepoints"), std::string::npos);
  EXPECT_EQ(refused("x:lib:f"), "Type must be 'p', 't', or 'u', but got x");
  EXPECT_EQ(refused("p:a:b:c"), "Too many ':'-separated components in pattern \"p:a:b:c\"");
  for (const char* text : {"", "sh:", ":f", "p:sh:"}) EXPECT_NE(refused(text), "") << text;
}

TEST(StackcountPattern, Wildcards) {
  const auto is = [](const char* pattern, const char* name) {
    return name_matcher(pattern, false)(name);
  };
  EXPECT_TRUE(is("pipe*", "pipe_create") && is("pipe*", "pipe") && is("*", "") && is("*", "x"));
  EXPECT_FALSE(is("pipe*", "sys_pipe2") || is("pipe", "pipe_create") || is("pipe_create", "pipe"));
  EXPECT_TRUE(is("*pipe*", "sys_pipe2") && is("*a*b*", "xaxbx") && is("*ab", "aab") &&
              is("a*b*b", "abab"));
  EXPECT_FALSE(is("*a*b", "ba") || is("a*", "") || is("a?", "a"));
  EXPECT_TRUE(is("PipeDevice::?e*", "PipeDevice::read") && is("a?c", "abc"));
  EXPECT_TRUE(is("a.c", "a.c"));
  EXPECT_FALSE(is("a.c", "abc"));
  EXPECT_FALSE(is((std::string(1000, '*') + "b").c_str(), std::string(10'000, 'a').c_str()));
}

TEST(StackcountPattern, RegularExpressions) {
  const auto is = [](const char* pattern, const std::string& name) {
    return name_matcher(pattern, true)(name);
  };
  EXPECT_TRUE(is("^pipe_.*", "pipe_create") && is("pipe", "pipe_create") &&
              is("(sys|pipe)_", "sys_pipe2"));
  EXPECT_FALSE(is("pipe", "sys_pipe2") || is("^pipe$", "pipe_create"));
  EXPECT_TRUE(is("^.*$", "") && is("^.*$", std::string(100'000, 'x')) &&
              is(R"(\w+::r\w*$)", "PipeDevice::read"));
  EXPECT_THROW(name_matcher("(", true), std::runtime_error);
  EXPECT_THROW(name_matcher("[a", true), std::runtime_error);
}

constexpr const char* kHead = "probe 1 state running functions 2\n";
constexpr const char* kNoLosses =
    "hits 9 counted 9 filtered 0 lost 0 kept_out 0 stacks 2 stacks_lost 0 contexts_lost 0 "
    "truncated 0\n\n";

// A summary of a Counter: the calls since the previous summary, counted for each stack and process,
// and the losses.
struct Read {
  std::vector<Count> counts;
  Losses losses;
};

Read since_last(Counter& counter, const std::string& text) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) counter.add(line);
  const Summary summary = counter.since_last();
  Read read{{}, summary.losses};
  for (const Summary::Group& group : summary.groups) read.counts.push_back(counter.count_of(group));
  return read;
}

TEST(StackcountCounts, WhatALineSays) {
  Counter counter;
  const Read summary = since_last(
      counter, std::string(kHead) + kNoLosses +
                   "count 7 kernel ffffffff80101005 ffffffff80102010 user 401234 abc pid "
                   "12 name sh path /bin/sh build 00ff7f later 3 4 5\n"
                   "count 2 kernel ffffffff80101005\n");
  ASSERT_EQ(summary.counts.size(), 2u);
  EXPECT_EQ(summary.counts[0].calls, 2u);
  EXPECT_EQ(summary.counts[0].pid, 0u);
  const Count& count = summary.counts[1];
  EXPECT_EQ(count.calls, 7u);
  EXPECT_EQ(count.kernel, (std::vector<uint64_t>{0xffffffff80101005, 0xffffffff80102010}));
  EXPECT_EQ(count.user, (std::vector<uint64_t>{0x401234, 0xabc}));
  EXPECT_EQ(count.pid, 12u);
  EXPECT_EQ(count.name + count.path, "sh/bin/sh");
  EXPECT_EQ(count.build_id, std::string("\0\xff\x7f", 3));
}

TEST(StackcountCounts, OnlyWhatIsNew) {
  Counter counter;
  const std::string head = kHead;
  since_last(counter, head + kNoLosses + "count 5 kernel 1\ncount 3 kernel 2\n");
  const Read summary =
      since_last(counter, head +
                              "hits 20 counted 18 filtered 0 lost 2 kept_out 1 stacks 3 "
                              "stacks_lost 4 contexts_lost 5 truncated 6\n\n" +
                              "count 9 kernel 3\ncount 6 kernel 1\ncount 3 kernel 2\n");
  ASSERT_EQ(summary.counts.size(), 2u);
  EXPECT_EQ(summary.counts[0].calls, 1u);
  EXPECT_EQ(summary.counts[0].kernel.at(0), 1u);
  EXPECT_EQ(summary.counts[1].calls, 9u);
  EXPECT_EQ(summary.losses.calls, 2u);
  std::ostringstream text;
  print_losses(text, summary.losses);
  EXPECT_EQ(text.str(),
            "Lost: 2 calls not counted, 4 calls counted without their stack, 5 calls counted "
            "without their process, 6 "
            "calls counted "
            "with their innermost frames only\nLeft out: 1 calls made by the tracer itself\n");
  std::ostringstream nothing;
  print_losses(nothing, {});
  EXPECT_EQ(nothing.str(), "");
}

TEST(StackcountCounts, DamagedText) {
  Counter counter;
  EXPECT_THROW(counter.add("count x kernel 1"), std::runtime_error);
  EXPECT_THROW(counter.add("something else"), std::runtime_error);
  EXPECT_TRUE(counter.since_last().groups.empty());
}

// Prints reports for a kernel of three functions.
class StackcountReport : public testing::Test {
 protected:
  StackcountReport() : back_(std::filesystem::current_path()) {
    folder_ = testing::TempDir() + "stackcount_test." + std::to_string(getpid());
    std::filesystem::create_directories(folder_ + "/#mem");
    std::filesystem::current_path(folder_);
    std::ofstream("#mem/ksyms")
        << "ffffffff80101000 T leaf\nffffffff80102000 T Middle::call\nffffffff80103000 T root\n";
  }
  ~StackcountReport() override {
    std::filesystem::current_path(back_);
    std::filesystem::remove_all(folder_);
  }
  std::string printed(const Arguments& arguments, const std::vector<Count>& counts) {
    FrameNames names(arguments.offset);
    std::ostringstream text;
    print_heading(text, arguments);
    for (const Count& count : counts) print_count(text, arguments, names, count);
    return text.str();
  }

  const std::vector<uint64_t> stack_ = {0xffffffff80101005, 0xffffffff80102010, 0xffffffff801030a0};
  const Count kernel_only_{
      .calls = 3, .kernel = stack_, .user = {}, .pid = 0, .name = {}, .path = {}, .build_id = {}};
  const Count both_{.calls = 12,
                    .kernel = stack_,
                    .user = {0x401005},
                    .pid = 7,
                    .name = "sh",
                    .path = "/none",
                    .build_id = "x"};

 private:
  std::filesystem::path back_;
  std::string folder_;
};

TEST_F(StackcountReport, Stacks) {
  EXPECT_EQ(printed({}, {kernel_only_}), "\n  leaf\n  Middle::call\n  root\n    3\n\n");
  EXPECT_EQ(printed({}, {both_}),
            "\n  leaf\n  Middle::call\n  root\n  [unknown]\n    sh [7]\n    12\n\n");
  Arguments arguments;
  arguments.delimited = true;
  EXPECT_EQ(printed(arguments, {both_}),
            "\n  leaf\n  Middle::call\n  root\n    --\n  [unknown]\n    sh [7]\n    12\n\n");
  arguments.pid = 7;
  EXPECT_EQ(printed(arguments, {both_}),
            "\n  leaf\n  Middle::call\n  root\n    --\n  [unknown]\n    12\n\n");
  arguments.user_stacks = false;
  EXPECT_EQ(printed(arguments, {kernel_only_}), "\n  leaf\n  Middle::call\n  root\n    3\n\n");
  EXPECT_EQ(printed({}, {}), "\n");
}

TEST_F(StackcountReport, OffsetsAndAddresses) {
  Arguments arguments;
  arguments.offset = true;
  EXPECT_EQ(printed(arguments, {kernel_only_}),
            "\n  leaf+0x5\n  Middle::call+0x10\n  root+0xa0\n    3\n\n");
  arguments.verbose = true;
  EXPECT_EQ(printed(arguments, {both_}),
            "\n  ffffffff80101005 leaf+0x5\n  ffffffff80102010 Middle::call+0x10\n  "
            "ffffffff801030a0 root+0xa0\n"
            "  401005           [unknown]\n    sh [7]\n    12\n\n");
}

TEST_F(StackcountReport, Folded) {
  Arguments arguments;
  arguments.folded = true;
  EXPECT_EQ(printed(arguments, {kernel_only_, both_}),
            "root;Middle::call;leaf 3\nsh;[unknown];root;Middle::call;leaf 12\n");
  arguments.delimited = true;
  EXPECT_EQ(printed(arguments, {both_}), "sh;[unknown];-;root;Middle::call;leaf 12\n");
  EXPECT_EQ(printed(arguments, {}), "");
  arguments.timestamp = true;
  EXPECT_TRUE(printed(arguments, {}).size() == 9);
}

}  // namespace
