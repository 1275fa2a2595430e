// The text of a dump.
#include <gtest/gtest.h>

#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "trace_text_world.h"

namespace {

// In a dump of references, each group lists the locations of up to eight references. After the list
// come the number of further references that have a location, and the number of references that
// were found nowhere.
TEST_F(TraceTextTest, ReferencesHavePlaces) {
  const ContextId shell = contexts_.intern(ContextKind::kProcess, 12, "sh");
  const StackId few = stack({0x10}), many = stack({0x30}), lost = stack({0x50});
  for (uint64_t i = 0; i < 20; i++) record(0x1000 + i, 0, i < 12 ? many : few, shell, 900);
  record(0x2000, 0, lost, shell, 900);
  RefPlaces places;
  ASSERT_TRUE(places.begin(100).ok());
  add_place(places, few, 0);
  add_place(places, few, 0x18);
  add_place(places, few, 0);
  add_place(places, lost, 0);
  for (uint64_t i = 1; i <= 11; i++) add_place(places, many, 8 * i);
  places.sort_by_stack();
  begin();
  text_->header.of_references = true;
  take();
  text_->places = &places;
  const std::string whole = read();
  const auto count = [&](const char* what) {
    size_t n = 0;
    for (size_t at = whole.find(what); at != std::string::npos; at = whole.find(what, at + 1)) n++;
    return n;
  };
  EXPECT_NE(whole.find("contexts pid 12 sh\n"
                       "\treference to 0xffff800000001005 at +0x8 of pipe 0xffff800000500000\n"),
            std::string::npos);
  EXPECT_NE(whole.find(" at +0x40 of pipe 0xffff800000500000\n\t… 3 references more\n\t0xffff"),
            std::string::npos);
  EXPECT_NE(whole.find("\treference to 0xffff800000001002 at +0x18 of pipe 0xffff800000500000\n"
                       "\t2 references nowhere found\n\t0xffff"),
            std::string::npos);
  EXPECT_NE(whole.find("contexts pid 12 sh\n\t1 references nowhere found\n"), std::string::npos);
  EXPECT_EQ(count("\treference to "), 9u);
  EXPECT_EQ(read(17), whole);
}

TEST_F(TraceTextTest, ThatPlacesAreNotKnownIsSaid) {
  record(0x1000, 0, stack({0x10}), ContextId::kNone, 900);
  begin();
  text_->header.of_references = text_->places_missing = true;
  take();
  EXPECT_NE(
      read().find("\ntheir locations are not known: there was no memory for the search\n\n1 ref"),
      std::string::npos);
}

// In a trace that counts frees, each group lists the stacks that have freed objects of its stack,
// the four with most frees; the counts of stacks without live objects are left out.
TEST_F(TraceTextTest, ListsWhoFrees) {
  ASSERT_TRUE(table_->make_free_counts());
  table_->set_options({.frees = true});
  const StackId leaks = stack({0x10}), never_freed = stack({0x20}), gone = stack({0x30});
  const auto free_by = [&](StackId allocated_by, StackId freed_by, int objects) {
    for (int i = 0; i < objects; i++) {
      record(0x9000, 8, allocated_by, ContextId::kNone, 900);
      table_->forget(0xffff800000009000, CpuId{1}, freed_by);
    }
  };
  record(0x1000, 10, leaks, ContextId::kNone, 900);
  record(0x2000, 8, never_freed, ContextId::kNone, 900);
  for (int i = 1; i <= 6; i++) free_by(leaks, stack({static_cast<uint64_t>(0x100 + i), 0x70}), i);
  free_by(gone, stack({0x80}), 3);
  free_by(leaks, StackId::kNone, 2);
  const auto take_with_frees = [this] {
    begin();
    take();
    text_->add_up_frees();
    return read();
  };
  const std::string text = take_with_frees();
  EXPECT_NE(text.find("\n2 frees are not counted: there was no memory\n\n10 bytes"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("contexts unknown\n"
                      "\tfreed 6 by stack\n\t\tf106+0x1 [kernel]\n\t\tf70+0x1 [kernel]\n"
                      "\tfreed 5 by stack\n\t\tf105+0x1 [kernel]\n\t\tf70+0x1 [kernel]\n"
                      "\tfreed 4 by stack\n\t\tf104+0x1 [kernel]\n\t\tf70+0x1 [kernel]\n"
                      "\tfreed 3 by stack\n\t\tf103+0x1 [kernel]\n\t\tf70+0x1 [kernel]\n"
                      "\t… freed 3 by 2 more stacks\n\t0xffff"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("\tfreed none\n"), std::string::npos) << text;
  EXPECT_EQ(text.find("f80+"), std::string::npos);
  EXPECT_EQ(read(17), text);
}

TEST_F(TraceTextTest, IsWhatTheDocumentationSays) {
  const ContextId shell = contexts_.intern(ContextKind::kProcess, 12, "sh");
  const ContextId timer = contexts_.intern(ContextKind::kInterrupt, 0, "timer");
  const ContextId idle = contexts_.intern(ContextKind::kKernelTask, 0, "reaper");
  const StackId small = stack({0x10, 0x20});
  const StackId large = stack({0x30});
  record(0x1000, 10, small, shell, 900);
  table_->set_mark(1);
  record(0x2000, 20, small, timer, 950);
  record(0x3000, 100, large, idle, 1000);
  record(0x4000, 1, small, shell, 960);
  table_->forget(0xffff800000004000, CpuId{0});
  table_->forget(0xffff800000005000, CpuId{0});
  EXPECT_EQ(
      dump(),
      "kmemtrace pipe state stopped objsize 64 depth 32 mark 1\n"
      "seen 4 recorded 4 dropped 0 filtered 0 freed 1 cleared 0 live 3 bytes 130 untracked 12 "
      "unmatched 1 "
      "stacks 2 stacks_lost 0 contexts_lost 0 truncated 0 estimated_bytes 130 estimated_objects 3\n"
      "\n"
      "100 bytes in 1 allocations from stack\n"
      "\tf30+0x1 [kernel]\n"
      "\tage ms min 0 avg 0 max 0, marks 1, contexts task reaper\n"
      "\t0xffff800000003000 size 100 age 0 mark 1 cpu 1 task reaper\n"
      "\n"
      "30 bytes in 2 allocations from stack\n"
      "\tf10+0x1 [kernel]\n"
      "\tf20+0x1 [kernel]\n"
      "\tage ms min 50 avg 75 max 100, marks 0-1, contexts pid 12 sh, irq timer\n"
      "\t0xffff800000001000 size 10 age 100 mark 0 cpu 1 pid 12 sh\n"
      "\t0xffff800000002000 size 20 age 50 mark 1 cpu 1 irq timer\n");
}

TEST_F(TraceTextTest, WhatStaysIsMarked) {
  record(0x1000, 10, stack({0x10}), contexts_.intern(ContextKind::kProcess, 12, "sh"), 900);
  table_->note_not_leak(0xffff800000001000);
  EXPECT_NE(dump().find("age 100 mark 0 cpu 1 not_leak pid 12 sh\n"), std::string::npos);
}

TEST_F(TraceTextTest, StacksAreThoseOfTheLiveRecords) {
  const ContextId context = contexts_.intern(ContextKind::kProcess, 1, "sh");
  stack({0x90});  // no record of this trace has this stack
  for (uint32_t i = 0; i < 10; i++) record(0x1000 + i * 64, 1, stack({0x10 + i % 3}), context, 0);
  record(0x2000, 1, stack({0x70}), context, 0);
  table_->forget(0xffff800000002000, CpuId{0});
  record(0x3000, 1, StackId::kNone, context, 0);
  const std::string text = dump();
  EXPECT_NE(text.find(" unmatched 0 stacks 3 stacks_lost 1 "), std::string::npos) << text;
}

TEST_F(TraceTextTest, AnEmptyTraceIsTwoLines) {
  EXPECT_EQ(
      dump(),
      "kmemtrace pipe state stopped objsize 64 depth 32 mark 0\n"
      "seen 0 recorded 0 dropped 0 filtered 0 freed 0 cleared 0 live 0 bytes 0 untracked 12 "
      "unmatched 0 "
      "stacks 0 stacks_lost 0 contexts_lost 0 truncated 0 estimated_bytes 0 estimated_objects 0\n");
}

TEST_F(TraceTextTest, FiltersEndTheFirstLine) {
  table_->filter(CpuId{0});
  begin();
  text_->header.state.options = {.depth = 8, .min_size = 100, .max_size = 4096, .pid = 12};
  take();
  const std::string text = read();
  EXPECT_TRUE(text.starts_with(
      "kmemtrace pipe state stopped objsize 64 depth 8 mark 0 min 100 max 4096 pid 12\nseen 1 "
      "recorded 0 dropped 0 filtered 1 "))
      << text;
}

TEST_F(TraceTextTest, SampledTracesSayWhatTheyStandFor) {
  const ContextId context = contexts_.intern(ContextKind::kKernelTask, 0, "reaper");
  // With this sampling rate, the two small objects represent more bytes than the large object.
  record(0x1000, 1'000'000, stack({0x10}), context, 900);
  record(0x2000'000, 64, stack({0x20}), context, 900);
  record(0x3000'000, 64, stack({0x20}), context, 900);
  begin();
  text_->header.state.options.sample = 1'000'000;
  take();
  const std::string text = read();
  EXPECT_NE(text.find(" sample 1000000\n"), std::string::npos) << text;
  // Estimated bytes: 1000000 / (1 - 1/e) + 2 * (1000000 + 32). Estimated objects: 1.58 + 2 *
  // 15625.5.
  EXPECT_NE(text.find(" bytes 1000128 "), std::string::npos) << text;
  EXPECT_NE(text.find(" estimated_bytes 3582041 estimated_objects 31253\n"), std::string::npos)
      << text;
  const size_t small = text.find(
      "\n128 bytes in 2 allocations from stack, estimated 2000064 bytes in 31251 allocations\n");
  const size_t large = text.find(
      "\n1000000 bytes in 1 allocations from stack, estimated 1581977 bytes in 2 allocations\n");
  EXPECT_NE(small, std::string::npos) << text;
  EXPECT_NE(large, std::string::npos) << text;
  EXPECT_LT(small, large);
}

TEST_F(TraceTextTest, UserStacksFollowTheContexts) {
  const uint8_t build_id[] = {0x12, 0xab};
  const auto user_stack = [&](std::vector<uint64_t> frames) {
    return stacks_.intern(StackKind::kUser, frames.data(), frames.size());
  };
  const StackId place = stack({0x10});
  const ContextId shell = contexts_.intern(ContextKind::kProcess, 12, "sh", {"/bin/sh", build_id});
  const ContextId other = contexts_.intern(ContextKind::kProcess, 13, "sh", {"/bin/sh", build_id});
  const ContextId cat = contexts_.intern(ContextKind::kProcess, 14, "cat", {"/bin/cat", {}});
  const StackId opens = user_stack({0x401000, 0x402000}), forks = user_stack({0x403000});
  record(0x1000, 10, place, shell, 990, opens);
  record(0x2000, 20, place, other, 991, opens);
  record(0x3000, 100, place, shell, 992, forks);
  // The same addresses in another program (cat) are listed as another user stack. Objects without a
  // user stack are only listed by their context.
  record(0x4000, 5, place, cat, 993, opens);
  record(0x5000, 1000, place, cat, 994);
  record(0x6000, 1000, place, ContextId::kNone, 995);
  const std::string text = dump();
  EXPECT_NE(
      text.find("\tf10+0x1 [kernel]\n"
                "\tage ms min 5 avg 7 max 10, marks 0, contexts pid 12 sh, pid 13 sh, pid 14 cat, "
                "unknown\n"
                "\tuser stack of pid 12 sh, 100 bytes in 1 allocations, build id 12ab\n"
                "\t\t0x403000 [/bin/sh]\n"
                "\tuser stack of pid 12 sh and 1 more, 30 bytes in 2 allocations, build id 12ab\n"
                "\t\t0x401000 [/bin/sh]\n"
                "\t\t0x402000 [/bin/sh]\n"
                "\tuser stack of pid 14 cat, 5 bytes in 1 allocations\n"
                "\t\t0x401000 [/bin/cat]\n"
                "\t\t0x402000 [/bin/cat]\n"
                "\t0xffff800000001000 size 10 "),
      std::string::npos)
      << text;
}

TEST_F(TraceTextTest, ManyUserStacksAreCutAndSayByHowMuch) {
  const ContextId shell = contexts_.intern(ContextKind::kProcess, 12, "sh", {"/bin/sh", {}});
  for (uint64_t i = 0; i < 11; i++) {
    const uint64_t frame = 0x400000 + i;
    const StackId user_stack = stacks_.intern(StackKind::kUser, &frame, 1);
    record(0x1000 + i * 64, 1, stack({0x10}), shell, 900, user_stack);
  }
  const std::string text = dump();
  EXPECT_NE(text.find("\t\t0x400007 [/bin/sh]\n\t… 3 more user stacks\n\t0xffff800000001000 "),
            std::string::npos)
      << text;
}

TEST_F(TraceTextTest, WhatWasNotRecordedSaysSo) {
  record(0x1000, 10, StackId::kNone, ContextId::kNone, 900);
  const std::string text = dump();
  EXPECT_NE(text.find("stacks_lost 1 contexts_lost 1"), std::string::npos);
  EXPECT_NE(text.find("\tthe stack was not recorded\n"), std::string::npos);
  EXPECT_NE(text.find("contexts unknown\n"), std::string::npos);
}

TEST_F(TraceTextTest, MarksAreAllThereAsRanges) {
  const ContextId context = contexts_.intern(ContextKind::kProcess, 1, "sh");
  const StackId place = stack({0x10});
  uint64_t object = 0x1000;
  for (const uint32_t mark : {5, 1, 2, 63, 64, 65, 128, 200, 65535, 2, 1}) {
    table_->set_mark(mark);
    record(object += 64, 1, place, context, 0);
  }
  EXPECT_NE(dump().find(", marks 1-2,5,63-65,128,200,65535, contexts pid 1 sh\n"),
            std::string::npos)
      << read();
}

TEST_F(TraceTextTest, LongListsAreCutAndSayByHowMuch) {
  const StackId place = stack({0x10});
  for (uint32_t i = 0; i < 250; i++) {
    record(0x1000 + i * 64, 1, place, contexts_.intern(ContextKind::kProcess, i % 20 + 1, "sh"), i);
  }
  const std::string text = dump();
  EXPECT_NE(text.find("contexts pid 1 sh, pid 2 sh, pid 3 sh, pid 4 sh, pid 5 sh, pid 6 sh, pid 7 "
                      "sh, pid 8 sh, … 12 more\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("\t… 150 more\n"), std::string::npos);
  // The dump lists the 100 oldest objects.
  EXPECT_NE(text.find(" age 1000 "), std::string::npos);
  EXPECT_NE(text.find(" age 901 "), std::string::npos);
  EXPECT_EQ(text.find(" age 900 "), std::string::npos);
}

TEST_F(TraceTextTest, NamesCannotForgeLines) {
  const ContextId context = contexts_.intern(ContextKind::kProcess, 1,
                                             std::string("a\nb\x1b[2J") + std::string(100, 'x'));
  record(0x1000, 1, stack({0x10}), context, 0);
  EXPECT_NE(dump().find("contexts pid 1 a?b?[2Jxxx"), std::string::npos);
}

TEST_F(TraceTextTest, AgesAreRightAfterTwoYears) {
  constexpr uint64_t kDay = 24 * 60 * 60 * 1000;
  now_ = 701 * kDay;
  const ContextId context = contexts_.intern(ContextKind::kProcess, 1, "sh");
  record(0x1000, 1, stack({0x10}), context, kDay);
  record(0x2000, 1, stack({0x10}), context, 601 * kDay);
  EXPECT_NE(dump().find("age ms min 8640000000 avg 34560000000 max 60480000000,"),
            std::string::npos)
      << read();
}

TEST_F(TraceTextTest, SizesAreExactBeyondFourGiB) {
  const ContextId context = contexts_.intern(ContextKind::kProcess, 1, "sh");
  record(0x1000, uint64_t{5} << 30, stack({0x10}), context, 0);
  record(0x2000, (uint64_t{9} << 30) + 1, stack({0x10}), context, 0);
  const std::string text = dump();
  EXPECT_NE(text.find("live 2 bytes 15032385537 "), std::string::npos) << text;
  EXPECT_NE(text.find("15032385537 bytes in 2 allocations from stack"), std::string::npos) << text;
  EXPECT_NE(text.find("size 9663676417 "), std::string::npos) << text;
}

TEST_F(TraceTextTest, ReadsTheSameInPiecesOfAnySizeAndAgain) {
  std::mt19937 random(1);
  const ContextId context = contexts_.intern(ContextKind::kProcess, 1, "sh");
  for (uint32_t i = 0; i < 3000; i++) {
    table_->set_mark(random() % 300);
    record(0x1000 + i * 64, random() % 100, stack({random() % 30 * 16, random() % 3}), context,
           i % 1000);
  }
  const std::string whole = dump();
  for (const size_t piece : {1, 7, 511, 512, 513, 100'000}) EXPECT_EQ(read(piece), whole) << piece;
  // A reader may start at any offset, and go backwards.
  char buffer[100];
  for (int i = 0; i < 50; i++) {
    const size_t offset = random() % (whole.size() + 10);
    const size_t got = text_->read(buffer, sizeof(buffer), offset);
    EXPECT_EQ(std::string(buffer, got),
              offset < whole.size() ? whole.substr(offset, sizeof(buffer)) : "");
  }
}

TEST_F(TraceTextTest, GroupsAddUp) {
  std::mt19937 random(2);
  const ContextId context = contexts_.intern(ContextKind::kProcess, 1, "sh");
  for (uint32_t i = 0; i < 30'000; i++) {
    record(0x1000 + i * 64, random() % 100, stack({random() % 200 * 16}), context, i % 1000);
  }
  std::istringstream lines(dump());
  std::string line;
  uint64_t bytes = 0, objects = 0, last = UINT64_MAX, groups = 0;
  while (std::getline(lines, line)) {
    unsigned long group_bytes;
    unsigned count;
    if (sscanf(line.c_str(), "%lu bytes in %u allocations", &group_bytes, &count) != 2) continue;
    EXPECT_LE(group_bytes, last) << "most bytes first";
    last = group_bytes;
    bytes += group_bytes;
    objects += count;
    groups++;
  }
  EXPECT_EQ(groups, 200u);
  EXPECT_EQ(objects, 30'000u);
  EXPECT_EQ(bytes, table_->counters().bytes);
}

}  // namespace
