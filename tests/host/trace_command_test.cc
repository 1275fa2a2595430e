// Sources: kern/src/trace/command.cc kern/lib/format.cc tests/host/fakes/trace_world.cc

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

// The C++ library goes first: kernel headers take the names of error numbers away from its macros.
#include "src/trace/command.h"
#include "src/trace/trace_table.h"
#include "trace_world.h"

namespace {

std::vector<TraceCommand> parse(std::string_view text, CommandScope scope = CommandScope::kOneCache) {
  EXPECT_TRUE(trace_check_syntax(text, scope).ok()) << text;
  std::vector<TraceCommand> commands;
  TraceCommand command;
  for (;;) {
    Result<bool> more = trace_next_command(&text, scope, &command);
    if (!more.ok() || !more.value()) return commands;
    commands.push_back(command);
  }
}

std::string error_of(std::string_view text, CommandScope scope = CommandScope::kOneCache) {
  const Result<void> result = trace_check_syntax(text, scope);
  if (result) return "";
  EXPECT_EQ(result.error(), Errno::EINVAL);
  return TraceWorld::error();
}

TEST(TraceCommand, Words) {
  EXPECT_EQ(parse("start\n")[0].word, TraceWord::kStart);
  EXPECT_EQ(parse("stop")[0].word, TraceWord::kStop);
  EXPECT_EQ(parse("  reset \n")[0].word, TraceWord::kReset);
  EXPECT_EQ(parse("\n\nmark\n")[0].word, TraceWord::kMark);
  EXPECT_EQ(parse("settle", CommandScope::kAllCaches)[0].word, TraceWord::kSettle);
  EXPECT_EQ(parse("stop\nreset\nstart\n").size(), 3u);
}

TEST(TraceCommand, Depth) {
  EXPECT_EQ(parse("start")[0].options.depth, 32u);
  EXPECT_EQ(parse("start depth=1")[0].options.depth, 1u);
  EXPECT_EQ(parse("start\tdepth=64\n")[0].options.depth, 64u);
  for (const char* bad : {"0", "65", "-1", "", "1x", "0x10", "999999999999999999999", "1.5", " 3"}) {
    const std::string error = error_of(std::string("start depth=") + bad);
    EXPECT_NE(error.find("depth=N, N from 1 to 64"), std::string::npos) << bad << ": " << error;
  }
}

TEST(TraceCommand, WrongWordsAreToldWhatWouldHaveBeenRight) {
  EXPECT_EQ(error_of("begin"), "\"begin\": expected start [depth=N], stop, reset or mark");
  EXPECT_EQ(error_of("settle"), "\"settle\": expected start [depth=N], stop, reset or mark");
  EXPECT_EQ(error_of("Start", CommandScope::kAllCaches),
            "\"Start\": expected start [depth=N], stop, reset, mark or settle");
  EXPECT_EQ(error_of("stop now"), "\"now\": stop takes no options");
  EXPECT_EQ(error_of("start sample=5"), "\"sample=5\": start takes depth=N, N from 1 to 64");
  EXPECT_EQ(error_of(""), "nothing to do: expected start [depth=N], stop, reset or mark");
  EXPECT_EQ(error_of(" \n \n"), "nothing to do: expected start [depth=N], stop, reset or mark");
}

TEST(TraceCommand, OneWrongLineSpoilsAll) {
  EXPECT_NE(error_of("start\nstop\nrset\n"), "");
}

TEST(TraceCommand, GarbageIsShownHarmlessly) {
  EXPECT_EQ(error_of(std::string_view("\x01\x7f\xff\0z", 5)),
            "\"????z\": expected start [depth=N], stop, reset or mark");
  const std::string error = error_of(std::string(100'000, 'x'));
  EXPECT_EQ(error, "\"xxxxxxxxxxxxxxxxxxxxxxxxxxxx...\": expected start [depth=N], stop, reset or mark");
  std::mt19937 random(1);
  for (int i = 0; i < 2000; i++) {
    std::string text(random() % 200, 0);
    for (char& c : text) c = static_cast<char>(random());
    EXPECT_NE(error_of(text), "");
    EXPECT_LT(TraceWorld::error().size(), 128u);
  }
}

// The table of states in command.h, cell by cell.
TEST(TraceCommand, States) {
  const auto after = [](TracePhase phase, const char* text) {
    TraceState state{.phase = phase, .options = {}, .mark = 3};
    for (const TraceCommand& command : parse(text)) {
      if (!trace_advance(state, command, "pipe")) return TraceState{.phase = phase, .options = {}, .mark = 999};
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
  EXPECT_EQ(TraceWorld::error(), "pipe is being traced with depth=8: stop it before it is started with other options");
  EXPECT_EQ(state.options.depth, 8u);
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
