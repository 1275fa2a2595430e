// The text of a dump for which there is little memory or none.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <set>
#include <sstream>
#include <string>

#include "trace_text_world.h"

namespace {

TEST_F(TraceTextTest, WithoutMemoryItSaysTheSameOfWhatFits) {
  std::mt19937 random(3);
  for (uint32_t i = 0; i < 20'000; i++) {
    table_->set_mark(i % 130);
    record(0x1000 + i * 64, random() % 100, stack({random() % 150 * 16}),
           contexts_.intern(ContextKind::kProcess, i % 150 + 1, "sh"), i % 1000);
  }
  const std::string whole = dump();
  const uint64_t blocks = TraceWorld::blocks_out();
  text_.reset();
  EXPECT_LT(TraceWorld::blocks_out(), blocks) << "it took memory";
  // Without memory, the dump does not know all marks, contexts and user stacks of each group, so
  // these parts of the text differ. without_contexts() removes these parts, because the next two
  // tests check them.
  const auto without_contexts = [](const std::string& text) {
    std::string lines;
    std::istringstream in(text);
    for (std::string line; std::getline(in, line); lines += line + "\n") {
      if (line.starts_with("\tage ms")) line.resize(line.find(", marks"));
      if (line.starts_with("\t… ") && line.ends_with(" not known")) line.clear();
    }
    return lines;
  };
  const std::string poor = dump_without_memory();
  std::string expected = without_contexts(whole), found = without_contexts(poor);
  std::erase(expected, '\n');
  std::erase(found, '\n');
  EXPECT_TRUE(expected == found);
}

TEST_F(TraceTextTest, WithoutMemoryContextsThatAreNotKnownAreCounted) {
  for (uint32_t i = 0; i < 3000; i++) {
    record(0x10000 + i * 64, 2, stack({0x10}),
           contexts_.intern(ContextKind::kProcess, i % 1500 + 1, "sh"), i / 1500);
  }
  EXPECT_NE(dump().find(", … 1492 more\n"), std::string::npos) << read();
  const std::string text = dump_without_memory();
  unsigned more, others, unknown;
  const char* const found = strstr(text.c_str(), " sh, … ");
  ASSERT_NE(found, nullptr) << text;
  ASSERT_EQ(sscanf(found, " sh, … %u more, … and others of %u allocations\n", &more, &others), 2)
      << text;
  EXPECT_EQ(2 * (8 + more) + others, 3000u);
  const char* const line = strstr(text.c_str(), "\t… ");
  ASSERT_EQ(sscanf(line, "\t… %u allocations more, whose user stacks are not known\n", &unknown), 1)
      << text;
  EXPECT_EQ(unknown, others);
}

TEST_F(TraceTextTest, WithoutMemoryMarksThatAreNotKnownAreCounted) {
  // The dump's bitmap of marks has a cell for each 64 marks. Here each mark is in a different cell.
  uint64_t object = 0x1000;
  for (uint32_t mark = 0; mark < 512 * 64; mark += 64) {
    table_->set_mark(mark);
    record(object += 64, 1, stack({0x10}), ContextId::kNone, 0);
  }
  EXPECT_NE(dump().find(",32704, contexts unknown\n"), std::string::npos) << read();
  unsigned unknown;
  const std::string text = dump_without_memory();
  const char* const found = strchr(strstr(text.c_str(), ", marks "), '(');
  ASSERT_EQ(sscanf(found, "(%u not known), contexts unknown\n", &unknown), 1) << text;
  EXPECT_GT(unknown, 100u);
  EXPECT_LT(unknown, 300u);
}

TEST_F(TraceTextTest, WithoutMemoryForAllStacksTheRestIsOneGroup) {
  constexpr uint32_t kStacks = 2000, kEach = 3;
  const ContextId context = contexts_.intern(ContextKind::kProcess, 1, "sh");
  for (uint32_t i = 0; i < kStacks * kEach; i++)
    record(0x10000 + i * 64, 10, stack({i % kStacks * 16}), context, i);
  EXPECT_EQ(dump().find(" unattributed "), std::string::npos) << "there was memory";
  const std::string text = dump_without_memory();
  const size_t key = text.find(" estimated_objects 6000 unattributed ");
  ASSERT_NE(key, std::string::npos) << text.substr(0, 1000);
  const unsigned long rest =
      strtoul(&text[key + strlen(" estimated_objects 6000 unattributed ")], nullptr, 10);
  EXPECT_GT(rest, 0u);
  EXPECT_LT(rest, 6000u);
  EXPECT_NE(text.find(" stacks " + std::to_string(kStacks - rest / kEach) + " "),
            std::string::npos);
  EXPECT_TRUE(text.ends_with("\n\n" + std::to_string(10 * rest) + " bytes in " +
                             std::to_string(rest) +
                             " allocations from stack\n"
                             "\tnot attributed: there was no memory for more stacks\n"))
      << text.substr(text.size() - 300);
  uint64_t objects = 0, shown = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    unsigned long bytes, count;
    if (sscanf(line.c_str(), "%lu bytes in %lu allocations from", &bytes, &count) == 2)
      objects += count;
    shown += line.starts_with("\t0x");
  }
  EXPECT_EQ(objects, uint64_t{kStacks * kEach});
  EXPECT_EQ(shown, objects - rest);
}

// Without memory, the details of the groups are collected in several batches while the text is
// read. The text must be the same as with memory, also if a reader reads it twice or begins at any
// offset.
TEST_F(TraceTextTest, ReadsTheSameWhenTheGroupsDoNotFit) {
  const ContextId context = contexts_.intern(ContextKind::kProcess, 1, "sh");
  for (uint32_t i = 0; i < 30'000; i++)
    record(0x10000 + i * 64, 1 + i % 50, stack({i % 100 * 16}), context, i % 777);
  const std::string whole = dump();
  EXPECT_FALSE(text_->needs_snapshot()) << "all details fit, nobody needs it any more";
  EXPECT_TRUE(dump_without_memory() == whole);
  EXPECT_TRUE(text_->needs_snapshot());
  for (const size_t piece : {1000, 1'000'000}) EXPECT_TRUE(read(piece) == whole) << piece;
  char buffer[1000];
  std::mt19937 random(4);
  for (int i = 0; i < 20; i++) {
    const size_t offset = random() % whole.size();
    const size_t got = text_->read(buffer, sizeof(buffer), offset);
    EXPECT_EQ(std::string(buffer, got), whole.substr(offset, sizeof(buffer)));
  }
}

// While a dump is open, the sweeper (sweeper.h) must keep the stacks and contexts that the text
// needs. The sweeper keeps what the dump retains with TraceText::retain(), and what the records of
// an open snapshot refer to. If there was memory for all groups, the dump itself must retain all
// stacks and contexts. Otherwise its snapshot is still open, and the snapshot's records must refer
// to all of them.
TEST_F(TraceTextTest, MarksAllNumbersThatItNeeds) {
  struct Used {
    void stack(StackId id) { stacks.insert(id); }
    void context(ContextId id) { contexts.insert(id); }
    std::set<StackId> stacks;
    std::set<ContextId> contexts;
  };
  std::set<StackId> kernel, user;
  std::set<ContextId> contexts;
  for (uint32_t i = 0; i < 9000; i++) {
    const uint64_t frame = 0x400000 + i % 7;
    const StackId place = stack({i % 100 * 16});
    const StackId caller = stacks_.intern(StackKind::kUser, &frame, 1);
    const ContextId context = contexts_.intern(ContextKind::kProcess, i % 20 + 1, "sh");
    record(0x10000 + i * 64, 1, place, context, i, caller);
    kernel.insert(place);
    user.insert(caller);
    contexts.insert(context);
  }
  for (const bool memory : {true, false}) {
    if (memory) {
      dump();
    } else {
      dump_without_memory();
    }
    EXPECT_EQ(text_->needs_snapshot(), !memory);
    Used used;
    if (memory) {
      text_->retain(used);
    } else {
      TraceSnapshot::Slice slice;
      text_->snapshot().visit(slice, [&used](const TraceRecord& record) {
        used.stack(record.stack);
        used.stack(record.user_stack);
        used.context(record.context);
      });
    }
    EXPECT_EQ(used.contexts, contexts);
    for (const auto& needed : {kernel, user}) {
      EXPECT_TRUE(
          std::includes(used.stacks.begin(), used.stacks.end(), needed.begin(), needed.end()))
          << memory;
    }
  }
}

// In round N, allocation number N fails. The bytes of all groups still add up to the true sum, and
// all memory is freed.
TEST_F(TraceTextTest, WhateverFailsTheSumsAreRight) {
  for (uint32_t i = 0; i < 20'000; i++) {
    record(0x10000 + i * 64, 10, stack({i % 2000 * 16}),
           contexts_.intern(ContextKind::kProcess, i % 1000 + 1, "sh"), i);
  }
  for (uint64_t nth = 0;; nth++) {
    begin();
    ASSERT_TRUE(text_->snapshot().open(*table_).ok());
    TraceWorld::fail_nth(nth);
    text_->make({now_});
    std::istringstream lines(read());
    const bool failed = TraceWorld::nth_failed();
    TraceWorld::fail_nth(UINT64_MAX);
    uint64_t bytes = 0;
    for (std::string line; std::getline(lines, line);) {
      unsigned long group;
      if (sscanf(line.c_str(), "%lu bytes in ", &group) == 1) bytes += group;
    }
    EXPECT_EQ(bytes, 200'000u) << nth;
    if (!failed) {
      EXPECT_GT(nth, 3u);
      break;
    }
  }
}

}  // namespace
