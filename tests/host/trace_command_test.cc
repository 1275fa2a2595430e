#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "trace/control/command_impl.h"
#include "trace/record/table.h"
#include "trace_world.h"

namespace {

std::vector<TraceCommand> parse(std::string_view text,
                                CommandScope scope = CommandScope::kOneCache) {
  Result<PageVector<TraceCommand>> commands = trace_parse_commands(text, scope);
  EXPECT_TRUE(commands.ok()) << text;
  return {commands->data(), commands->data() + commands->size()};
}

std::string error_of(std::string_view text, CommandScope scope = CommandScope::kOneCache) {
  const Result<PageVector<TraceCommand>> result = trace_parse_commands(text, scope);
  if (result) return "";
  EXPECT_EQ(result.error(), Errno::EINVAL);
  return TraceWorld::error();
}

TEST(TraceCommand, Words) {
  EXPECT_EQ(parse("start\n")[0].word, TraceWord::kStart);
  EXPECT_EQ(parse("stop")[0].word, TraceWord::kStop);
  EXPECT_EQ(parse("  reset \n")[0].word, TraceWord::kReset);
  EXPECT_EQ(parse("\n\nmark\n")[0].word, TraceWord::kMark);
  for (const CommandScope scope : {CommandScope::kOneCache, CommandScope::kAllCaches}) {
    EXPECT_EQ(parse("check", scope)[0].word, TraceWord::kCheck);
    EXPECT_EQ(parse("nocheck", scope)[0].word, TraceWord::kNoCheck);
    EXPECT_EQ(parse("scan", scope)[0].word, TraceWord::kScan);
  }
  EXPECT_EQ(parse("settle", CommandScope::kAllCaches)[0].word, TraceWord::kSettle);
  EXPECT_EQ(parse("reap", CommandScope::kAllCaches)[0].word, TraceWord::kReap);
  EXPECT_EQ(parse("stop\nreset\nstart\n").size(), 3u);
}

TEST(TraceCommand, Depth) {
  EXPECT_EQ(parse("start")[0].options.depth, 32u);
  EXPECT_EQ(parse("start depth=1")[0].options.depth, 1u);
  EXPECT_EQ(parse("start\tdepth=64\n")[0].options.depth, 64u);
  for (const char* bad :
       {"0", "65", "-1", "", "1x", "0x10", "999999999999999999999", "1.5", " 3"}) {
    const std::string error = error_of(std::string("start depth=") + bad);
    EXPECT_NE(error.find("depth=N, N from 1 to 64"), std::string::npos) << bad << ": " << error;
  }
}

TEST(TraceCommand, Filters) {
  EXPECT_EQ(parse("start")[0].options, TraceOptions());
  const TraceOptions all = parse("start pid=32767 max=4294967294 depth=2 min=100")[0].options;
  EXPECT_EQ(all, (TraceOptions{.depth = 2, .min_size = 100, .max_size = 4294967294, .pid = 32767}));
  EXPECT_EQ(parse("start min=4K max=2M")[0].options,
            (TraceOptions{.min_size = 4096, .max_size = 2 << 20}));
  EXPECT_EQ(parse("start min=64 max=64")[0].options,
            (TraceOptions{.min_size = 64, .max_size = 64}));
  // A filter that excludes nothing counts as no filter.
  EXPECT_EQ(parse("start min=0 max=4294967295")[0].options, TraceOptions());
  for (const char* bad : {"", "-1", "x", "4294967296", "4G", "99999999999999999999", "K", "1KK",
                          "1k", "1 K", "0x10"}) {
    for (const char* key : {"min", "max"}) {
      const std::string error = error_of(std::string("start ") + key + "=" + bad);
      EXPECT_NE(error.find("start takes "), std::string::npos)
          << key << "=" << bad << ": " << error;
    }
  }
  EXPECT_NE(error_of("start min").find("start takes min=N and max=N"), std::string::npos);
  for (const char* bad :
       {"", "0", "-1", "x", "32768", "2147483647", "1K", "99999999999999999999"}) {
    const std::string error = error_of(std::string("start pid=") + bad);
    EXPECT_NE(error.find("pid=N, N from 1 to 32767"), std::string::npos) << bad << ": " << error;
  }
  EXPECT_EQ(error_of("start min=2 max=1"),
            "min=2 max=1: no size matches, because min is greater than max");
  for (const char* bad : {"start =", "start =1", "start mins=1", "start Min=1"}) {
    EXPECT_NE(error_of(bad).find("start takes depth=N, sample=N, min=N, max=N, pid=N and frees"),
              std::string::npos)
        << bad;
  }
}

TEST(TraceCommand, Sample) {
  EXPECT_EQ(parse("start")[0].options.sample, 0u);
  EXPECT_EQ(parse("start sample=1")[0].options.sample, 1u);
  EXPECT_EQ(parse("start sample=512K")[0].options.sample, 512u << 10);
  EXPECT_EQ(parse("start sample=3M depth=4")[0].options,
            (TraceOptions{.depth = 4, .sample = 3 << 20}));
  EXPECT_EQ(parse("start sample=4G")[0].options.sample, uint64_t{1} << 32);
  for (const char* bad : {"", "0", "-1", "x", "5G", "4294967297", "99999999999999999999", "K", "1T",
                          "512k", "0.5M"}) {
    const std::string error = error_of(std::string("start sample=") + bad);
    EXPECT_NE(error.find("start takes sample=N, N bytes from 1 to 4G; K, M or G may follow"),
              std::string::npos)
        << bad << ": " << error;
  }
}

TEST(TraceCommand, RecordsOfTwoRatesAreNotMixed) {
  TraceState state{
      .phase = TracePhase::kStopped, .options = parse("start sample=1M")[0].options, .mark = 0};
  for (const char* other : {"start", "start sample=2M"}) {
    const Result<void> refused = trace_advance(state, parse(other)[0], "pipe");
    ASSERT_FALSE(refused.ok()) << other;
    EXPECT_EQ(refused.error(), Errno::EBUSY);
    EXPECT_EQ(TraceWorld::error(), "pipe has records with another sampling rate: reset it first");
    EXPECT_EQ(state.phase, TracePhase::kStopped);
  }
  EXPECT_TRUE(trace_advance(state, parse("start sample=1024K depth=3")[0], "pipe").ok());
  EXPECT_TRUE(trace_advance(state, parse("stop")[0], "pipe").ok());
  EXPECT_TRUE(trace_advance(state, parse("reset")[0], "pipe").ok());
  EXPECT_TRUE(trace_advance(state, parse("start")[0], "pipe").ok());
}

TEST(TraceCommand, FiltersAreShownWhenTheyAreSet) {
  const auto shown = [](const char* text, size_t room = 64) {
    std::string buffer(room, 'x');
    const int length = parse(text)[0].options.format_filters(buffer.data(), room);
    EXPECT_LT(strlen(buffer.c_str()), room);
    return std::string(buffer.c_str()) + "/" + std::to_string(length);
  };
  EXPECT_EQ(shown("start depth=3"), "/0");
  EXPECT_EQ(shown("start max=7"), " max 7/6");
  EXPECT_EQ(shown("start sample=2K max=7"), " max 7 sample 2048/18");
  EXPECT_EQ(
      shown("start sample=4G pid=32767 max=4294967294 min=4294967294", TraceOptions::kMaxFilters),
      " min 4294967294 max 4294967294 pid 32767 sample 4294967296/58");
  EXPECT_EQ(shown("start pid=12 max=2K min=1"), " min 1 max 2048 pid 12/22");
  EXPECT_EQ(shown("start pid=12 max=2K min=1", 10), " min 1 ma/22");
  EXPECT_EQ(parse("start pid=12 max=2K min=1")[0].options.format_filters(nullptr, 0), 22);
}

TEST(TraceCommand, Limit) {
  const auto limit = [](const char* text) {
    return parse(text, CommandScope::kAllCaches)[0].limit;
  };
  EXPECT_EQ(parse("limit 64K", CommandScope::kAllCaches)[0].word, TraceWord::kLimit);
  EXPECT_EQ(limit("limit 4096"), 4096u);
  EXPECT_EQ(limit("limit 5000"), 5000u);
  EXPECT_EQ(limit(" limit\t64K \n"), 65536u);
  EXPECT_EQ(limit("limit 3M"), 3u << 20);
  EXPECT_EQ(limit("limit 1024G"), uint64_t{1} << 40);
  for (const char* bad :
       {"", "0", "4095", "3K", "1025G", "1T", "64k", "K", "-1", "64KB", "1.5M",
        "99999999999999999999", "18446744073709551616", "17592186044416M", "0x1000"}) {
    const std::string error = error_of(std::string("limit ") + bad, CommandScope::kAllCaches);
    EXPECT_EQ(error, "\"" + std::string(bad) +
                         "\": limit takes BYTES from 4096 to 1024G; K, M or G may follow");
  }
  EXPECT_EQ(error_of("limit 64K 1", CommandScope::kAllCaches),
            "\"1\": limit takes no more options");
  EXPECT_NE(error_of("limit 64K"), "") << "it is not for one cache";
}

TEST(TraceCommand, MessagesFit) {
  const std::string longest(100, 'x');
  for (const CommandScope scope : {CommandScope::kOneCache, CommandScope::kAllCaches}) {
    const std::string error = error_of(longest, scope);
    EXPECT_LT(error.size(), 127u) << error;
    EXPECT_LT(error_of("start min=" + longest, scope).size(), 127u);
  }
  TraceState state{
      .phase = TracePhase::kRunning,
      .options =
          parse("start depth=64 min=4294967293 max=4294967294 pid=32767 sample=4G")[0].options};
  EXPECT_FALSE(trace_advance(state, parse("start")[0], longest.c_str()).ok());
  EXPECT_TRUE(
      TraceWorld::error().ends_with(" is being traced with depth=64 min=4294967293 max=4294967294 "
                                    "pid=32767 sample=4294967296: stop it first"))
      << TraceWorld::error();
}

TEST(TraceCommand, WrongWordsAreToldWhatWouldHaveBeenRight) {
  EXPECT_EQ(error_of("begin"),
            "\"begin\": expected start [OPTION ...], stop, reset, mark, check, nocheck or scan");
  EXPECT_EQ(error_of("reap"),
            "\"reap\": expected start [OPTION ...], stop, reset, mark, check, nocheck or scan");
  EXPECT_EQ(error_of("settle"),
            "\"settle\": expected start [OPTION ...], stop, reset, mark, check, nocheck or scan");
  EXPECT_EQ(
      error_of("Start", CommandScope::kAllCaches),
      "\"Start\": expected start, refs, stop, reset, mark, [no]check, scan, limit N, reap, sweep "
      "or settle");
  EXPECT_EQ(error_of("refs"),
            "\"refs\": expected start [OPTION ...], stop, reset, mark, check, nocheck or scan");
  EXPECT_EQ(error_of("stop now"), "\"now\": stop takes no options");
  EXPECT_EQ(error_of("start samples=5"),
            "\"samples=5\": start takes depth=N, sample=N, min=N, max=N, pid=N and frees");
  EXPECT_EQ(
      error_of(""),
      "nothing to do: expected start [OPTION ...], stop, reset, mark, check, nocheck or scan");
  EXPECT_EQ(
      error_of(" \n \n"),
      "nothing to do: expected start [OPTION ...], stop, reset, mark, check, nocheck or scan");
}

TEST(TraceCommand, OneWrongLineSpoilsAll) {
  EXPECT_NE(error_of("start\nstop\nrset\n"), "");
}

TEST(TraceCommand, TheListGrowsWithTheLines) {
  std::string text;
  for (int i = 1; i <= 500; i++)
    text += "limit " + std::to_string(4096 + i) + "\n" + (i < 500 ? "mark\n" : "stop");
  const std::vector<TraceCommand> commands = parse(text, CommandScope::kAllCaches);
  ASSERT_EQ(commands.size(), 1000u);
  for (size_t i = 1; i <= 500; i++) {
    EXPECT_EQ(commands[2 * i - 2].limit, 4096 + i);
    EXPECT_EQ(commands[2 * i - 1].word, i < 500 ? TraceWord::kMark : TraceWord::kStop);
  }
  for (uint64_t nth = 0;; nth++) {
    TraceWorld::fail_nth(nth);
    const Result<PageVector<TraceCommand>> result =
        trace_parse_commands(text, CommandScope::kAllCaches);
    if (!TraceWorld::nth_failed()) break;
    EXPECT_EQ(result.error(), Errno::ENOMEM);
  }
  TraceWorld::fail_nth(UINT64_MAX);
  EXPECT_EQ(TraceWorld::blocks_out(), 0u);
}

TEST(TraceCommand, GarbageIsShownHarmlessly) {
  EXPECT_EQ(error_of(std::string_view("\x01\x7f\xff\0z", 5)),
            "\"????z\": expected start [OPTION ...], stop, reset, mark, check, nocheck or scan");
  const std::string error = error_of(std::string(100'000, 'x'));
  EXPECT_EQ(error,
            "\"xxxxxxxxxxxxxxxxxxxxxxxxxxxx...\": expected start [OPTION ...], stop, reset, mark, "
            "check, nocheck or scan");
  std::mt19937 random(1);
  for (int i = 0; i < 2000; i++) {
    std::string text(random() % 200, 0);
    for (char& c : text) c = static_cast<char>(random());
    EXPECT_NE(error_of(text), "");
    EXPECT_LT(TraceWorld::error().size(), 128u);
  }
}

// Tests each cell of the table of phases and commands in command_impl.h.
TEST(TraceCommand, States) {
  const auto after = [](TracePhase phase, const char* text) {
    TraceState state{.phase = phase, .options = {}, .mark = 3};
    for (const TraceCommand& command : parse(text)) {
      if (!trace_advance(state, command, "pipe"))
        return TraceState{.phase = phase, .options = {}, .mark = 999};
    }
    return state;
  };
  EXPECT_EQ(after(TracePhase::kOff, "start").phase, TracePhase::kRunning);
  EXPECT_EQ(after(TracePhase::kOff, "stop").phase, TracePhase::kOff);
  EXPECT_EQ(after(TracePhase::kOff, "reset").phase, TracePhase::kOff);
  EXPECT_EQ(after(TracePhase::kOff, "mark").mark, 999u);
  EXPECT_EQ(after(TracePhase::kRunning, "start").phase, TracePhase::kRunning);
  EXPECT_EQ(after(TracePhase::kRunning, "stop").phase, TracePhase::kStopped);
  EXPECT_EQ(after(TracePhase::kRunning, "reset").phase, TracePhase::kRunning);
  EXPECT_EQ(after(TracePhase::kRunning, "reset").mark, 3u);
  EXPECT_EQ(after(TracePhase::kRunning, "mark").mark, 4u);
  EXPECT_EQ(after(TracePhase::kStopped, "start").phase, TracePhase::kRunning);
  EXPECT_EQ(after(TracePhase::kStopped, "start depth=5").options.depth, 5u);
  EXPECT_EQ(after(TracePhase::kStopped, "stop").phase, TracePhase::kStopped);
  EXPECT_EQ(after(TracePhase::kStopped, "reset").phase, TracePhase::kOff);
  EXPECT_EQ(after(TracePhase::kStopped, "reset").mark, 0u);
  EXPECT_EQ(after(TracePhase::kStopped, "mark").mark, 4u);
}

TEST(TraceCommand, OtherOptionsWhileRunningAreRefused) {
  TraceState state{.phase = TracePhase::kRunning, .options = {.depth = 8}, .mark = 0};
  EXPECT_TRUE(trace_advance(state, parse("start depth=8")[0], "pipe").ok());
  const Result<void> refused = trace_advance(state, parse("start depth=9")[0], "pipe");
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error(), Errno::EBUSY);
  EXPECT_EQ(TraceWorld::error(), "pipe is being traced with depth=8: stop it first");
  EXPECT_EQ(state.options.depth, 8u);
  state.options = parse("start min=10 pid=3")[0].options;
  EXPECT_TRUE(trace_advance(state, parse("start pid=3 min=10")[0], "pipe").ok());
  for (const char* other : {"start", "start min=10", "start min=11 pid=3", "start min=10 pid=4",
                            "start min=10 max=99 pid=3"}) {
    const Result<void> changed = trace_advance(state, parse(other)[0], "pipe");
    ASSERT_FALSE(changed.ok()) << other;
    EXPECT_EQ(changed.error(), Errno::EBUSY);
    EXPECT_EQ(TraceWorld::error(),
              "pipe is being traced with depth=32 min=10 pid=3: stop it first");
  }
}

TEST(TraceCommand, MarksRunOut) {
  TraceState state{.phase = TracePhase::kRunning, .options = {}, .mark = TraceTable::kMaxMark - 1};
  const TraceCommand mark = parse("mark")[0];
  EXPECT_TRUE(trace_advance(state, mark, "pipe").ok());
  EXPECT_EQ(state.mark, 65535u);
  EXPECT_EQ(trace_advance(state, mark, "pipe").error(), Errno::ENOSPC);
  EXPECT_EQ(state.mark, 65535u);
}

}  // namespace
