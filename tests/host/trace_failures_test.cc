// Starts two traces, uses them and ends them, many times. In run N, allocation number N fails: an
// allocation of a page of trace memory, or of memory for a dump. In each run the identities of the
// counters (docs/tracedump.md) hold, and all memory is freed at the end. At most one stack,
// context, record or dump is lost or incomplete, and the counters show the loss.

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstring>
#include <memory>
#include <random>
#include <unordered_map>
#include <vector>

#include "table_access.h"
#include "trace/dump/binary.h"
#include "trace/dump/text_impl.h"
#include "trace_world.h"

namespace {

uint64_t now() {
  return 1000;
}

struct Expected {
  TraceCounters counters = {};
  std::unordered_map<uint64_t, uint32_t> live;  // for each live object: its size in bytes
};

class Life {
 public:
  ~Life() {
    for (TraceTable* table : tables_) {
      if (table) TraceTable::destroy(table);
    }
    if (contexts_open_) contexts_.clear();
    if (stacks_open_) stacks_.clear();
  }

  // Allocates the tables in the same order as the command `start`.
  Result<void> open() {
    TRY(stacks_.open());
    stacks_open_ = true;
    TRY(contexts_.open());
    contexts_open_ = true;
    for (TraceTable*& table : tables_) {
      table = TraceTable::create(64);
      if (!table) return Errno::ENOMEM;
    }
    return {};
  }

  // Records and frees objects, and makes dumps. Returns the number of dumps that were incomplete
  // for lack of memory.
  unsigned live() {
    unsigned poorer = 0;
    for (int phase = 0; phase < 4; phase++) {
      for (int i = 0; i < 1000; i++) step();
      check_all();
      if (phase % 2 == 1) {
        if (!dump_text()) poorer++;
        if (!dump_binary()) poorer++;
      }
      for (TraceTable* table : tables_) table->next_mark();
      if (phase == 2) clear(0);
      check_all();
    }
    for (size_t table = 0; table < tables_.size(); table++) {
      while (!expected_[table].live.empty()) forget(table, expected_[table].live.begin()->first);
    }
    check_all();
    return poorer;
  }

  TraceCounters lost() const {
    TraceCounters sum = expected_[0].counters;
    sum += expected_[1].counters;
    return sum;
  }

 private:
  // Records, filters or frees an object in one of the two traces, with the same calls as a hook.
  void step() {
    const size_t table = random_() % tables_.size();
    Expected& expected = expected_[table];
    const unsigned what = random_() % 20;
    if (what < 5 && !expected.live.empty()) return forget(table, expected.live.begin()->first);
    const uint64_t object = next_object_ += 64;
    if (what == 5) {
      tables_[table]->filter(CpuId{0});
      expected.counters.seen++;
      expected.counters.filtered++;
      return;
    }
    record(table, object);
  }

  void record(size_t table, uint64_t object) {
    Expected& expected = expected_[table];
    trace_memory_prepare();
    std::array<uint64_t, 20> frames;
    const uint64_t which = random_() % 400;
    for (size_t i = 0; i < frames.size(); i++) frames[i] = StackTable::kKernelBase + which * 64 + i;
    const StackId stack = stacks_.intern(StackKind::kKernel, frames.data(), 4 + which % 16);

    const auto pid = static_cast<uint32_t>(1 + random_() % 2000);
    const std::string name = "program" + std::to_string(pid % 90);
    const ContextId context = contexts_.intern(ContextKind::kProcess, pid, name,
                                               {.path = "/bin/program", .build_id = {}});
    bool user_stack_lost = false;
    StackId user_stack = StackId::kNone;
    if (context != ContextId::kNone && random_() % 2 == 0) {
      const uint64_t user_frames[] = {0x400000 + which * 8, 0x500000};
      user_stack = stacks_.intern(StackKind::kUser, user_frames, 2);
      user_stack_lost = user_stack == StackId::kNone;
    }

    const auto size = static_cast<uint32_t>(1 + random_() % 64);
    const uint64_t dropped = tables_[table]->counters().dropped;
    tables_[table]->record({.object = object,
                            .size = size,
                            .stack = stack,
                            .user_stack = user_stack,
                            .context = context,
                            .time = {500},
                            .cpu = CpuId{static_cast<uint32_t>(which % 8)},
                            .truncated = which % 16 == 0,
                            .user_stack_lost = user_stack_lost});
    TraceCounters& counters = expected.counters;
    counters.seen++;
    if (tables_[table]->counters().dropped != dropped) {
      counters.dropped++;
      return;
    }
    counters.recorded++;
    counters.bytes += size;
    counters.stacks_lost += stack == StackId::kNone || user_stack_lost;
    counters.contexts_lost += context == ContextId::kNone;
    counters.truncated += which % 16 == 0;
    expected.live[object] = size;
  }

  void forget(size_t table, uint64_t object) {
    Expected& expected = expected_[table];
    tables_[table]->forget(object, CpuId{0});
    expected.counters.freed++;
    expected.counters.bytes -= expected.live[object];
    expected.live.erase(object);
  }

  void clear(size_t table) {
    tables_[table]->clear();
    expected_[table].counters.cleared += expected_[table].live.size();
    expected_[table].counters.bytes = 0;
    expected_[table].live.clear();
  }

  void check_all() {
    for (size_t table = 0; table < tables_.size(); table++) {
      TraceCounters counters;
      const std::vector<TraceRecord> records = copy_of(*tables_[table], &counters);
      ASSERT_EQ(counters.seen, counters.recorded + counters.dropped + counters.filtered);
      ASSERT_EQ(records.size(), expected_[table].live.size());
      expect_equal(counters, expected_[table].counters);
      for (const TraceRecord& record : records) {
        const auto at = expected_[table].live.find(record.object());
        ASSERT_NE(at, expected_[table].live.end());
        ASSERT_EQ(record.size(), at->second);
      }
    }
  }

  static void expect_equal(const TraceCounters& is, const TraceCounters& expected) {
    ASSERT_EQ(is.seen, expected.seen);
    ASSERT_EQ(is.recorded, expected.recorded);
    ASSERT_EQ(is.dropped, expected.dropped);
    ASSERT_EQ(is.filtered, expected.filtered);
    ASSERT_EQ(is.freed, expected.freed);
    ASSERT_EQ(is.cleared, expected.cleared);
    ASSERT_EQ(is.unmatched, 0u);
    ASSERT_EQ(is.bytes, expected.bytes);
    ASSERT_EQ(is.stacks_lost, expected.stacks_lost);
    ASSERT_EQ(is.contexts_lost, expected.contexts_lost);
    ASSERT_EQ(is.truncated, expected.truncated);
  }

  template <typename Dump>
  static std::string read_all(Dump& dump) {
    std::string all, buffer(4096, 0);
    while (const size_t got = dump.read(buffer.data(), buffer.size(), all.size()))
      all.append(buffer, 0, got);
    EXPECT_FALSE(all.empty());
    return all;
  }

  // Returns true if the text dump is complete.
  bool dump_text() {
    TraceText text(memory_, stacks_, contexts_);
    EXPECT_TRUE(text.snapshot().open(*tables_[0]).ok());
    text.make({now()});
    expect_equal(text.header.counters, expected_[0].counters);
    const std::string all = read_all(text);
    return all.find("not known") == all.npos && all.find(" unattributed ") == all.npos;
  }
  bool dump_binary() {
    TraceBinary binary(memory_, stacks_, contexts_);
    EXPECT_TRUE(binary.begin(tables_.size()).ok());
    for (TraceTable* table : tables_) binary.add(TraceHeader{}, ABI_TRACEDUMP_CACHE, 0, *table);
    EXPECT_TRUE(binary.open().ok());
    binary.finish({});
    abi_tracedump_header header;
    memcpy(&header, read_all(binary).data(), sizeof(header));
    return header.stacks_unnamed + header.contexts_unnamed == 0;
  }

  StackTable stacks_;
  ContextTable contexts_;
  std::array<TraceTable*, 2> tables_ = {};
  bool stacks_open_ = false, contexts_open_ = false;
  std::array<Expected, 2> expected_;
  std::minstd_rand random_;
  uint64_t next_object_ = 0xffff800000000000;
  // The text dump and the binary dump use the same buffer.
  static_assert(TraceText::kRoom <= TraceBinary::kRoom);
  alignas(kPageSize) std::byte memory_[TraceBinary::kRoom];
};

TEST(TraceFailures, EachAllocationFailsOnceInTurn) {
  unsigned not_started = 0, poorer = 0, dropped = 0, without_stack = 0, without_context = 0;
  uint64_t nth = 0;
  for (bool reached = true; reached; nth++) {
    SCOPED_TRACE(nth);
    TraceWorld::fail_nth(nth);
    auto life = std::make_unique<Life>();
    if (const Result<void> opened = life->open(); !opened) {
      ASSERT_EQ(opened.error(), Errno::ENOMEM);
      not_started++;
    } else {
      const unsigned dumps = life->live();
      if (HasFailure()) break;
      const TraceCounters lost = life->lost();
      ASSERT_LE(dumps + lost.dropped + lost.stacks_lost + lost.contexts_lost, 1u);
      poorer += dumps;
      dropped += lost.dropped;
      without_stack += lost.stacks_lost;
      without_context += lost.contexts_lost;
      reached = TraceWorld::nth_failed();
      ASSERT_TRUE(reached || dumps + lost.dropped + lost.stacks_lost + lost.contexts_lost == 0);
    }
    life.reset();
    ASSERT_EQ(TraceWorld::pages_out(), 0u);
    ASSERT_EQ(TraceWorld::blocks_out(), 0u);
  }
  TraceWorld::fail_nth(UINT64_MAX);
  // The failures had each kind of effect at least once.
  EXPECT_GT(nth, 90u);
  EXPECT_GE(not_started, 7u);
  EXPECT_GT(poorer, 3u);
  EXPECT_GT(dropped, 10u);
  EXPECT_GT(without_stack, 5u);
  EXPECT_GT(without_context, 0u) << "most find room in places that are larger";
}

}  // namespace
