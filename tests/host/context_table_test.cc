#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "intern/context_table.h"
#include "trace_world.h"

namespace {

TEST(ContextTableTest, WhatIsRememberedIsToldFromWhatWasBeforeTheTableWasEmptied) {
  ContextTable table;
  EXPECT_EQ(table.intern(ContextKind::kProcess, 1, "sh"), ContextId::kNone) << "not open";
  EXPECT_EQ(table.remember(ContextId::kNone), 0u);
  std::vector<uint64_t> remembered;
  for (int round = 0; round < 3; round++) {
    ASSERT_TRUE(table.open().ok());
    for (uint32_t pid = 1; pid <= 500; pid++) {
      const ContextId id = table.intern(ContextKind::kProcess, pid, "sh");
      EXPECT_EQ(table.recall(table.remember(id)), id);
      EXPECT_EQ(table.intern(ContextKind::kProcess, pid, "sh"), id);
      EXPECT_NE(table.intern(ContextKind::kKernelTask, pid, "sh"), id);
      EXPECT_NE(table.intern(ContextKind::kProcess, pid, "cat"), id);
      EXPECT_LT(number_of(id), table.end());
      EXPECT_EQ(table.get(id)->pid, pid);
      EXPECT_STREQ(table.get(id)->program->name, "sh");
      remembered.push_back(table.remember(id));
    }
    EXPECT_EQ(table.size(), 1500u);
    EXPECT_EQ(table.fill().entries, 1502u) << "and two programs";
    EXPECT_EQ(table.recall(0), ContextId::kNone);
    table.clear();
    for (const uint64_t number : remembered) EXPECT_FALSE(table.remembers(number));
  }
  EXPECT_EQ(TraceWorld::pages_out(), 0u);
}

TEST(ContextTableTest, ProcessesShareTheirProgram) {
  ContextTable table;
  ASSERT_TRUE(table.open().ok());
  const uint8_t first[] = {1, 2, 3}, second[] = {1, 2, 4};
  const ContextId shell = table.intern(ContextKind::kProcess, 1, "sh", {"/bin/sh", first});
  const auto* const program = table.get(shell)->program;
  // A different build id, path or name makes a different program.
  for (const ContextId other : {table.intern(ContextKind::kProcess, 1, "sh", {"/bin/sh", second}),
                                table.intern(ContextKind::kProcess, 1, "sh", {"/tmp/sh", first}),
                                table.intern(ContextKind::kProcess, 1, "ash", {"/bin/sh", first}),
                                table.intern(ContextKind::kProcess, 1, "sh")}) {
    EXPECT_NE(other, shell);
    EXPECT_NE(table.get(other)->program, program);
  }
  EXPECT_EQ(table.intern(ContextKind::kProcess, 1, "sh", {"/bin/sh", first}), shell);
  for (uint32_t pid = 2; pid <= 1000; pid++) {
    const ContextId id = table.intern(ContextKind::kProcess, pid, "sh", {"/bin/sh", first});
    EXPECT_EQ(table.get(id)->program, program);
    EXPECT_EQ(table.get(id)->pid, pid);
  }
  EXPECT_EQ(table.size(), 1004u);
  EXPECT_EQ(program->build_id_size, 3);
  // The chain heads and a directory take two pages. The other pages have the entries: 40 bytes for
  // each of the 1,004 processes, and the entries of the five programs.
  EXPECT_EQ(TraceWorld::pages_out(), 2 + 1004 * 40 / kPageSize + 1);
  EXPECT_EQ(table.fill().bytes_held, TraceWorld::pages_out() * kPageSize);
  const std::string longest(500, 'x');
  const std::vector<uint8_t> long_id(64, 7);
  const ContextId cut = table.intern(ContextKind::kProcess, 1, longest, {longest, long_id});
  EXPECT_EQ(table.get(cut)->program->build_id_size, kMaxBuildId);
  EXPECT_EQ(strlen(table.get(cut)->program->path), sizeof(ContextTable::Program::path) - 1);
  table.clear();
  EXPECT_EQ(TraceWorld::pages_out(), 0u);
}

TEST(ContextTableTest, AtTheLimitWhatIsThereIsFound) {
  ContextTable table;
  ASSERT_TRUE(table.open().ok());
  const ContextId first = table.intern(ContextKind::kProcess, 1, "sh");
  TraceWorld::fail_pages(1'000'000);
  uint32_t pid = 2;
  while (table.intern(ContextKind::kProcess, pid, "sh") != ContextId::kNone) pid++;
  EXPECT_GT(pid, 100u) << "the page was begun";
  EXPECT_EQ(table.intern(ContextKind::kProcess, 1, "sh"), first);
  // The program is new, too. The program's entry may still fit, but the process's entry does not.
  EXPECT_EQ(table.intern(ContextKind::kProcess, 1, "cat"), ContextId::kNone);
  TraceWorld::fail_pages(0);
  EXPECT_NE(table.intern(ContextKind::kProcess, pid, "sh"), ContextId::kNone);
  EXPECT_NE(table.intern(ContextKind::kProcess, 1, "cat"), ContextId::kNone);
  table.clear();
  EXPECT_EQ(TraceWorld::pages_out(), 0u);
}

}  // namespace
