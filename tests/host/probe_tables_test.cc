#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <random>
#include <set>
#include <utility>

#include "intern/stack_counts.h"
#include "probe/events_impl.h"
#include "probe/pairs_impl.h"
#include "table_access.h"
#include "trace/record/table.h"
#include "trace_world.h"

namespace {

using Keys = std::map<std::pair<uint32_t, uint32_t>, uint64_t>;

Keys keys_of(const StackCounts::CpuTable& part) {
  Keys keys;
  part.visit([&](StackCounts::Key key, uint64_t count) {
    const bool added =
        keys.try_emplace({number_of(key.stack), number_of(key.context())}, count).second;
    EXPECT_TRUE(added);
  });
  return keys;
}

class Pages : public testing::Test {
 protected:
  void TearDown() override {
    TraceWorld::fail_pages(0);
    EXPECT_EQ(TraceWorld::pages_out(), 0u);
  }
};
using Counts = Pages;
using Events = Pages;
using Owners = Pages;

TEST_F(Counts, AreExact) {
  std::mt19937_64 random(1);
  StackCounts::CpuTable part;
  Keys expected;
  for (int i = 0; i < 300000; i++) {
    // In the kernel's tables, stack numbers are not consecutive. So the test uses multiples of 8.
    const uint32_t stack = static_cast<uint32_t>(random() % 5000) * 8,
                   context = static_cast<uint32_t>(random() % 7);
    ASSERT_TRUE(part.add({StackId{stack}, ContextId{context}}));
    expected[{stack, context}]++;
  }
  EXPECT_EQ(keys_of(part), expected);
  EXPECT_EQ(part.keys(), expected.size());
  StackCounts::CpuTable::Contents taken;
  part.take_away(taken);
  EXPECT_TRUE(keys_of(part).empty());
  ASSERT_TRUE(part.add({StackId{1}, ContextId{2}}));
  EXPECT_EQ(keys_of(part), (Keys{{{1, 2}, 1}}));
  StackCounts::CpuTable::release(taken);
  part.take_away(taken);
  StackCounts::CpuTable::release(taken);
}

TEST_F(Counts, WithoutMemory) {
  std::mt19937 random(3);
  StackCounts::CpuTable part;
  TraceWorld::fail_pages(60);
  Keys expected;
  uint64_t lost = 0;
  for (int i = 0; i < 200000; i++) {
    const uint32_t stack = random() % 20000;
    if (part.add({StackId{stack}, ContextId::kNone})) {
      expected[{stack, 0}]++;
    } else {
      lost++;
    }
  }
  EXPECT_GT(lost, 0u);
  EXPECT_EQ(keys_of(part), expected);
  StackCounts::CpuTable::Contents taken;
  part.take_away(taken);
  StackCounts::CpuTable::release(taken);
}

ProbeEvent event(uint64_t number) {
  ProbeEvent event = {};
  event.time = number;
  return event;
}

TEST_F(Events, ComeInOrderAndLossesStandWhereTheyWere) {
  ProbeEvents* events = ProbeEvents::create(2, 2);
  ASSERT_NE(events, nullptr);
  const uint32_t capacity = events->capacity();
  ProbeEvent taken;
  bool any;
  uint64_t lost;
  EXPECT_TRUE(events->empty());
  EXPECT_FALSE(events->take(&taken, &any, &lost));
  uint64_t next = 0;
  for (int round = 0; round < 5; round++) {
    const uint64_t first = next;
    for (uint32_t i = 0; i < capacity; i++) ASSERT_TRUE(events->put(event(next++)));
    for (int i = 0; i < 7; i++) ASSERT_FALSE(events->put(event(999)));
    ASSERT_TRUE(events->take(&taken, &any, &lost));
    EXPECT_TRUE(any && taken.time == first && lost == 0);
    ASSERT_TRUE(events->put(event(next++)));  // has the count of the seven lost events before it
    ASSERT_FALSE(events->put(event(999)));
    for (uint64_t i = first + 1; i < next; i++) {
      ASSERT_TRUE(events->take(&taken, &any, &lost));
      ASSERT_TRUE(any);
      ASSERT_EQ(taken.time, i);
      ASSERT_EQ(lost, i == next - 1 ? 7u : 0u);
    }
    EXPECT_FALSE(events->empty());
    ASSERT_TRUE(events->take(&taken, &any, &lost));  // no event, but the count of one lost event
    EXPECT_TRUE(!any && lost == 1);
    EXPECT_FALSE(events->take(&taken, &any, &lost));
  }
  ASSERT_TRUE(events->put(event(1)));
  events->clear();
  EXPECT_TRUE(events->empty());
  ProbeEvents::destroy(events);
}

TEST_F(Events, KeepAsManyValuesAsAreAskedFor) {
  uint32_t capacity = 0;
  for (const uint32_t values : {ProbeEvent::kMaxValues, 2u}) {
    ProbeEvents* events = ProbeEvents::create(1, values);
    ASSERT_NE(events, nullptr);
    EXPECT_GT(events->capacity(), capacity);  // with fewer values, more events fit into the memory
    capacity = events->capacity();
    for (uint64_t i = 0; i < 3 * capacity; i++) {
      const ProbeEvent put = {.time = i,
                              .name = "name",
                              .values = {i, i + 1, i + 2, i + 3, i + 4, i + 5},
                              .pid = 4,
                              .context = ContextId{5},
                              .cpu = CpuId{6},
                              .kind = ProbeEvent::Kind::kAlloc};
      ASSERT_TRUE(events->put(put));
      ProbeEvent taken = event(0);
      bool any;
      uint64_t lost;
      ASSERT_TRUE(events->take(&taken, &any, &lost));
      ASSERT_TRUE(taken.time == i && taken.name == put.name && taken.pid == 4 &&
                  taken.context == ContextId{5} && taken.cpu == CpuId{6} && taken.kind == put.kind);
      for (uint32_t v = 0; v < ProbeEvent::kMaxValues; v++)
        ASSERT_EQ(taken.values[v], v < values ? i + v : 0);
    }
    ProbeEvents::destroy(events);
  }
}

TEST_F(Events, WithoutMemory) {
  TraceWorld::fail_pages(100);
  EXPECT_EQ(ProbeEvents::create(4, 2), nullptr);
}

ProbeCall call_at(uint64_t stack_pointer, uint32_t tag) {
  ProbeCall call = {};
  call.stack_pointer = stack_pointer;
  call.tag = tag;
  return call;
}
constexpr auto kStands = [](const ProbeCall&) { return true; };
constexpr auto kGone = [](const ProbeCall&) { return false; };
constexpr auto kForgotten = [](const ProbeCall&) {};

TEST(Pairs, OutermostCallIsKept) {
  auto pairs = std::make_unique<ProbePairs>();
  const ProbeRunner a = ProbeRunner::thread(7), b = ProbeRunner::thread(8);
  ProbeCall call;
  EXPECT_FALSE(pairs->within(a, 1000, kStands, kForgotten));
  EXPECT_FALSE(pairs->leave(a, 1000, 1, &call, kForgotten));
  ASSERT_TRUE(pairs->enter(a, call_at(1000, 1)));
  EXPECT_TRUE(pairs->within(a, 900, kStands, kForgotten));
  EXPECT_FALSE(pairs->within(b, 900, kStands, kForgotten));
  EXPECT_FALSE(pairs->leave(a, 900, 2, &call, kForgotten));  // the return of a nested call
  EXPECT_TRUE(pairs->leave(a, 1000, 1, &call, kForgotten));
  EXPECT_EQ(call.stack_pointer, 1000u);
  EXPECT_FALSE(pairs->leave(a, 1000, 1, &call, kForgotten));
}

TEST(Pairs, CallsWhoseReturnIsNotToldAreCounted) {
  auto pairs = std::make_unique<ProbePairs>();
  const ProbeRunner a = ProbeRunner::thread(7), b = ProbeRunner::task(7);
  ProbeCall call;
  ASSERT_TRUE(pairs->enter(a, call_at(1000, 1)));
  EXPECT_TRUE(pairs->leave(a, 1000, 1, &call, kForgotten));
  EXPECT_EQ(pairs->abandoned(), 0u);
  // A call is abandoned in each of these cases: another call begins at the same stack pointer; a
  // call begins at a lower stack pointer, and the callback says that the first call has ended
  // (kGone); another function returns at the same stack pointer; a function returns at a higher
  // one; the thread ends.
  uint64_t expected = 0;
  std::vector<uint64_t> told;
  const auto gone = [&](const ProbeCall& lost) { told.push_back(lost.stack_pointer + lost.tag); };
  const auto abandon = [&](auto how) {
    ASSERT_TRUE(pairs->enter(a, call_at(1000, 1)));
    how();
    EXPECT_FALSE(pairs->leave(a, 1000, 1, &call, kForgotten));
    EXPECT_EQ(pairs->abandoned(), ++expected);
    EXPECT_EQ(told, std::vector<uint64_t>(expected, 1001));
  };
  abandon([&] { EXPECT_FALSE(pairs->within(a, 1000, kStands, gone)); });
  abandon([&] { EXPECT_FALSE(pairs->within(a, 900, kGone, gone)); });
  abandon([&] { EXPECT_FALSE(pairs->leave(a, 1000, 2, &call, gone)); });
  abandon([&] { EXPECT_FALSE(pairs->leave(a, 1008, 1, &call, gone)); });
  abandon([&] { pairs->forget(a, gone); });
  pairs->forget(a, gone);
  EXPECT_EQ(pairs->abandoned(), expected) << "there was none";
  ASSERT_TRUE(pairs->enter(a, call_at(1000, 1)));
  ASSERT_TRUE(pairs->enter(b, call_at(1000, 1)));
  pairs->forget_all(gone);
  EXPECT_EQ(pairs->abandoned(), expected + 2);
  EXPECT_EQ(told.size(), expected + 2);
}

TEST(Pairs, CallsThatEndWithoutReturn) {
  auto pairs = std::make_unique<ProbePairs>();
  const ProbeRunner runner = ProbeRunner::task(1);
  ProbeCall call;
  for (const uint64_t next : {1000, 1008}) {  // stack pointer of the next call: the same, or higher
    ASSERT_TRUE(pairs->enter(runner, call_at(1000, 1)));
    EXPECT_FALSE(pairs->within(runner, next, kStands, kForgotten));
    EXPECT_FALSE(pairs->leave(runner, 1000, 1, &call, kForgotten));
  }
  ASSERT_TRUE(pairs->enter(runner, call_at(1000, 1)));
  EXPECT_FALSE(pairs->leave(runner, 1008, 1, &call, kForgotten));  // at a higher stack pointer
  EXPECT_FALSE(pairs->leave(runner, 1000, 1, &call, kForgotten));
  ASSERT_TRUE(pairs->enter(runner, call_at(1000, 1)));
  // Another function returns at the same stack pointer.
  EXPECT_FALSE(pairs->leave(runner, 1000, 2, &call, kForgotten));
  EXPECT_FALSE(pairs->leave(runner, 1000, 1, &call, kForgotten));
  ASSERT_TRUE(pairs->enter(runner, call_at(1000, 1)));
  // Another call begins at a lower stack pointer, and kGone says that the outer call has ended.
  EXPECT_FALSE(pairs->within(runner, 900, kGone, kForgotten));
  EXPECT_FALSE(pairs->within(runner, 800, kStands, kForgotten));
  ASSERT_TRUE(pairs->enter(runner, call_at(1000, 1)));
  pairs->forget(runner, kForgotten);
  EXPECT_FALSE(pairs->within(runner, 900, kStands, kForgotten));
}

TEST(Pairs, ManyRunners) {
  auto pairs = std::make_unique<ProbePairs>();
  std::set<uint32_t> kept;
  for (uint32_t id = 1; id <= 1200; id++) {
    if (pairs->enter(ProbeRunner::thread(id), call_at(id * 16, id))) kept.insert(id);
    if (id == 500) {
      EXPECT_EQ(kept.size(), id);
    }
  }
  EXPECT_GT(kept.size(), 900u);
  EXPECT_LT(kept.size(), 1200u);  // enter() fails if the runner's bucket is full
  ProbeCall call;
  for (uint32_t id = 1; id <= 1200; id++) {
    EXPECT_EQ(pairs->leave(ProbeRunner::thread(id), id * 16, id, &call, kForgotten),
              kept.count(id) == 1);
  }
  EXPECT_TRUE(pairs->enter(ProbeRunner::thread(1), call_at(1, 1)));
  pairs->forget_all(kForgotten);
  EXPECT_FALSE(pairs->within(ProbeRunner::thread(1), 0, kStands, kForgotten));
}

TraceEvent object(uint64_t address, uint32_t size) {
  return {.object = address,
          .size = size,
          .stack = StackId{1},
          .context = ContextId{1},
          .time = {5},
          .cpu = CpuId{0},
          .truncated = false};
}

// Returns the size in bytes of each recorded object, by {address, owner}.
std::map<std::pair<uint64_t, uint32_t>, uint32_t> records_of(TraceTable& table) {
  std::map<std::pair<uint64_t, uint32_t>, uint32_t> found;
  TraceCounters counters;
  const std::vector<TraceRecord> records = copy_of(table, &counters);
  const size_t count = records.size();
  uint64_t bytes = 0;
  for (const TraceRecord& record : records) {
    found[{record.object(), record.mark()}] = static_cast<uint32_t>(record.size());
    bytes += static_cast<uint32_t>(record.size());
  }
  EXPECT_EQ(counters.seen, counters.recorded + counters.dropped + counters.filtered);
  EXPECT_EQ(counters.recorded, counters.freed + counters.cleared + count);
  EXPECT_EQ(counters.bytes, bytes);
  return found;
}

TEST_F(Owners, AreToldApart) {
  TraceTable* table = TraceTable::create(64);
  for (uint16_t owner = 1; owner <= 20; owner++) {
    for (uint64_t i = 0; i < 500; i++)
      table->record(object(0x400000 + i * 16, owner), trace_owner(owner));
  }
  EXPECT_EQ(records_of(*table).size(), 10000u);
  EXPECT_TRUE(table->forget_of(trace_owner(3), 0x400000, CpuId{0}));
  EXPECT_FALSE(table->forget_of(trace_owner(3), 0x400000, CpuId{0}));
  EXPECT_FALSE(table->forget_of(trace_owner(21), 0x400000, CpuId{0}));
  auto records = records_of(*table);
  EXPECT_EQ(records.size(), 9999u);
  EXPECT_EQ((records[{0x400000, 4}]), 4u);
  table->leave(trace_owner(4), TraceTable::Leave::kClear);
  EXPECT_EQ(records_of(*table).size(), 9499u);
  table->leave(trace_owner(5), TraceTable::Leave::kKeep);
  records = records_of(*table);
  EXPECT_EQ(records.size(), 9499u);
  EXPECT_EQ((records[{0x400000, 0}]), 5u);
  // The next owner with the same number does not own the records that the previous one left.
  EXPECT_FALSE(table->forget_of(trace_owner(5), 0x400000, CpuId{0}));
  EXPECT_EQ(table->counters().unmatched, 3u);
  EXPECT_EQ(table->counters().cleared, 500u);
  table->drop(CpuId{1});
  EXPECT_EQ(table->counters().dropped, 1u);
  TraceTable::destroy(table);
}

// Compares the recorded ranges with a model that has an entry for each page. A recorded mapping
// often ends inside its last page, because the program requested only a part of that page.
TEST_F(Owners, Ranges) {
  constexpr uint64_t kPage = 4096, kBase = 0x7f0000000000, kPages = 64;
  std::mt19937 random(5);
  TraceTable* table = TraceTable::create(64);
  std::map<uint32_t, std::vector<int>>
      model;  // for each owner and page, the number of the page's mapping, or 0
  // For each mapping: bytes at the end of its last page that were not requested.
  std::map<int, uint64_t> unasked;
  int number = 0;
  for (int i = 0; i < 20000; i++) {
    const uint32_t owner = 1 + random() % 3;
    auto& pages = model[owner];
    pages.resize(kPages);
    const uint64_t first = random() % kPages,
                   count = 1 + random() % std::min<uint64_t>(kPages - first, 9);
    const auto begin = pages.begin() + static_cast<long>(first),
               end = begin + static_cast<long>(count);
    if (random() % 2 == 0) {
      if (std::any_of(begin, end, [](int mapped) { return mapped != 0; })) continue;
      std::fill(begin, end, ++number);
      unasked[number] = random() % 2 == 0 ? 0 : random() % kPage;
      table->record(
          object(kBase + first * kPage, static_cast<uint32_t>(count * kPage - unasked[number])),
          trace_owner(owner));
    } else {
      const bool any = std::any_of(begin, end, [](int mapped) { return mapped != 0; });
      // If a mapping continues after the unmapped pages, its pages there become a mapping with a
      // new number.
      for (uint64_t page = first + count;
           page < kPages && page > 0 && pages[page] != 0 && pages[page] == pages[page - 1];
           page++) {
        if (page == first + count) number++;
        if (page + 1 == kPages || pages[page + 1] != pages[page]) {
          const int old = pages[page];
          unasked[number] = std::exchange(unasked[old], 0);
          for (uint64_t p = first + count; p <= page; p++) {
            if (pages[p] == old) pages[p] = number;
          }
          break;
        }
      }
      std::for_each(begin, end, [&](int mapped) { unasked[mapped] = 0; });
      std::fill(begin, end, 0);
      ASSERT_EQ(table->cut(kBase + first * kPage, count * kPage, trace_owner(owner)), any);
    }
    if (i % 50 != 0) continue;
    std::map<std::pair<uint64_t, uint32_t>, uint32_t> expected;
    for (const auto& [who, mapped] : model) {
      for (uint64_t page = 0; page < kPages; page++) {
        if (mapped[page] == 0) continue;
        uint64_t last = page;
        while (last + 1 < kPages && mapped[last + 1] == mapped[page]) last++;
        expected[{kBase + page * kPage, who}] =
            static_cast<uint32_t>((last - page + 1) * kPage - unasked[mapped[page]]);
        page = last;
      }
    }
    ASSERT_EQ(records_of(*table), expected) << i;
  }
  TraceTable::destroy(table);
}

}  // namespace
