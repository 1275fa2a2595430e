#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "trace/control/later_impl.h"
#include "trace/record/table.h"
#include "trace_world.h"

namespace {

// `items` is a value of the kernel option `trace=`. The cache `name` is created after the kernel
// has read the option. Returns the options with which the cache is traced, as a user types them: ""
// for the default options. Returns "no" if the cache is not traced.
std::string wants(std::string_view items, std::string_view name) {
  TraceLater later;
  later.expect(items);
  const std::optional<TraceOptions> options = later.wants(name);
  if (!options) return "no";
  char text[TraceOptions::kMaxFilters + 16];
  options->format_as_typed(text, sizeof(text));
  return *options == TraceOptions() ? "" : text;
}

// `items` is a value of `trace=`. Returns an error message for each invalid item.
std::vector<std::string> errors(std::string_view items) {
  std::vector<std::string> found;
  for (TraceItem item; trace_next_item(&items, &item);) {
    const Result<TraceOptions> options = trace_check_item(item);
    if (!options.ok()) found.push_back(std::string(item.name) + ": " + TraceWorld::error());
  }
  return found;
}

TraceCommand command(TraceWord word, TraceOptions options = {}) {
  return {.word = word, .options = options, .limit = 0};
}

TEST(TraceLater, All) {
  EXPECT_EQ(wants("all", "pipe"), "");
  EXPECT_EQ(wants("all", "all"), "");
  EXPECT_EQ(wants("all:depth=3:min=2K", "pipe"), " depth=3 min=2048");
  EXPECT_EQ(wants("", "pipe"), "no");
  EXPECT_EQ(wants("allx", "pipe"), "no");
}

TEST(TraceLater, Names) {
  EXPECT_EQ(wants("pipe,chan", "pipe"), "");
  EXPECT_EQ(wants("pipe,chan", "chan"), "");
  for (const char* other : {"pip", "pipes", "pipe_buffer", "", "pipe,chan", "all"})
    EXPECT_EQ(wants("pipe,chan", other), "no") << other;
}

TEST(TraceLater, OptionsHoldForTheItemsBeforeThatHaveNone) {
  const char* const both = "pipe,chan:depth=16:sample=512K";
  EXPECT_EQ(wants(both, "pipe"), " depth=16 sample=524288");
  EXPECT_EQ(wants(both, "chan"), " depth=16 sample=524288");
  const char* const several = "a:depth=8,b,c:depth=16,d";
  EXPECT_EQ(wants(several, "a"), " depth=8");
  EXPECT_EQ(wants(several, "b"), " depth=16");
  EXPECT_EQ(wants(several, "c"), " depth=16");
  EXPECT_EQ(wants(several, "d"), "");
  // A colon without options means the default options: `a` does not get those of `b`.
  EXPECT_EQ(wants("a:,b:depth=2", "a"), "");
}

TEST(TraceLater, ANameGoesBeforeAll) {
  for (const char* items : {"all:sample=1M,pipe:depth=9", "pipe:depth=9,all:sample=1M"}) {
    EXPECT_EQ(wants(items, "pipe"), " depth=9") << items;
    EXPECT_EQ(wants(items, "chan"), " depth=32 sample=1048576") << items;
  }
  EXPECT_EQ(wants("pipe:depth=1,pipe:depth=2", "pipe"), " depth=1");
}

TEST(TraceLater, WhatIsWrongIsSaidAndTheRestGoesOn) {
  EXPECT_EQ(errors("pipe,chan:depth=16:sample=512K"), std::vector<std::string>());
  EXPECT_EQ(errors("a:dpeth=1,b:depth=2"),
            std::vector<std::string>{"a: \"dpeth=1\": start takes depth=N, sample=N, min=N, max=N, "
                                     "pid=N and frees"});
  EXPECT_EQ(wants("a:dpeth=1,b:depth=2", "a"), "no");
  EXPECT_EQ(wants("a:dpeth=1,b:depth=2", "b"), " depth=2");
  // If several names share invalid options, there is a message for each name.
  EXPECT_EQ(errors("a,b:depth=65").size(), 2u);
  EXPECT_EQ(
      errors("a:min=2:max=1"),
      std::vector<std::string>{"a: min=2 max=1: no size matches, because min is greater than max"});
  const std::string name = ": no cache or arena can have that name, and it is not \"all\"";
  const std::string longest(31, 'x'), too_long(32, 'x');
  EXPECT_EQ(errors("a,,b,:depth=2," + longest), (std::vector<std::string>{name, name}));
  for (const std::string& bad : {too_long, std::string(1000, 'x'), std::string("a/b"),
                                 std::string("."), std::string(".."), std::string("\x80")})
    EXPECT_EQ(errors(bad), std::vector<std::string>{bad + name});
  EXPECT_EQ(wants(longest, longest), "");
  // An empty value has no items, and a comma at the end adds none.
  EXPECT_EQ(errors(""), std::vector<std::string>());
  EXPECT_EQ(errors("a,"), std::vector<std::string>());
}

TEST(TraceLater, UntilStop) {
  TraceLater later;
  EXPECT_FALSE(later.wants("pipe"));
  const TraceOptions few{.depth = 4};
  ASSERT_TRUE(later.advance(command(TraceWord::kStart, few)).ok());
  EXPECT_EQ(later.wants("pipe"), few);
  EXPECT_EQ(later.all(), few);
  // `start` with the options of the running trace succeeds; with other options it is refused.
  // Traces of existing caches have the same rule.
  EXPECT_TRUE(later.advance(command(TraceWord::kStart, few)).ok());
  EXPECT_EQ(later.advance(command(TraceWord::kStart)).error(), Errno::EBUSY);
  EXPECT_EQ(TraceWorld::error(), "later caches and arenas are traced with depth=4: stop it first");
  EXPECT_EQ(later.wants("pipe"), few);
  // `reset` does not end a running trace.
  EXPECT_TRUE(later.advance(command(TraceWord::kReset)).ok());
  EXPECT_EQ(later.wants("pipe"), few);
  EXPECT_TRUE(later.advance(command(TraceWord::kStop)).ok());
  EXPECT_FALSE(later.wants("pipe"));
  EXPECT_FALSE(later.all());
  EXPECT_TRUE(later.advance(command(TraceWord::kStart)).ok());
  EXPECT_EQ(later.wants("pipe"), TraceOptions());
  for (const TraceWord word :
       {TraceWord::kCheck, TraceWord::kReap, TraceWord::kLimit, TraceWord::kSettle})
    EXPECT_TRUE(later.advance(command(word)).ok());
  EXPECT_EQ(later.wants("pipe"), TraceOptions());
}

TEST(TraceLater, StopEndsWhatTheCommandLineNames) {
  TraceLater later;
  later.expect("pipe:depth=9");
  // `start` adds all other caches; `pipe` keeps its own options.
  EXPECT_TRUE(later.advance(command(TraceWord::kStart)).ok());
  EXPECT_EQ(later.wants("pipe")->depth, 9u);
  EXPECT_EQ(later.wants("chan"), TraceOptions());
  EXPECT_TRUE(later.advance(command(TraceWord::kStop)).ok());
  EXPECT_FALSE(later.wants("pipe"));
  EXPECT_EQ(later.items(), "");
}

TEST(TraceLater, MarksAreThoseOfTheOthers) {
  TraceLater later;
  EXPECT_TRUE(later.advance(command(TraceWord::kMark)).ok());
  EXPECT_EQ(later.mark(), 0u);  // nothing is being traced
  EXPECT_TRUE(later.advance(command(TraceWord::kStart)).ok());
  EXPECT_TRUE(later.advance(command(TraceWord::kMark)).ok());
  EXPECT_TRUE(later.advance(command(TraceWord::kReset)).ok());
  EXPECT_EQ(later.mark(), 1u);
  // `mark` advances the mark even while the trace is stopped. The next `start` does not reset it.
  EXPECT_TRUE(later.advance(command(TraceWord::kStop)).ok());
  EXPECT_TRUE(later.advance(command(TraceWord::kMark)).ok());
  EXPECT_TRUE(later.advance(command(TraceWord::kStart)).ok());
  EXPECT_EQ(later.mark(), 2u);
  while (later.mark() < TraceTable::kMaxMark)
    ASSERT_TRUE(later.advance(command(TraceWord::kMark)).ok());
  EXPECT_EQ(later.advance(command(TraceWord::kMark)).error(), Errno::ENOSPC);
  EXPECT_TRUE(later.advance(command(TraceWord::kStop)).ok());
  EXPECT_TRUE(later.advance(command(TraceWord::kReset)).ok());
  EXPECT_EQ(later.mark(), 0u);
}

TEST(TraceLater, WhatCouldNotBeTracedIsForgottenWithTheNextStart) {
  TraceLater later;
  EXPECT_TRUE(later.advance(command(TraceWord::kStart)).ok());
  later.count_untraced();
  EXPECT_TRUE(later.advance(command(TraceWord::kStop)).ok());
  EXPECT_EQ(later.untraced(), 1u);
  EXPECT_TRUE(later.advance(command(TraceWord::kStart)).ok());
  EXPECT_EQ(later.untraced(), 0u);
}

}  // namespace
