// Tests the search for unreachable objects (kern/reach) in a fake memory (reach_memory.h). The
// search has an index of objects, notes the reachable objects, and finds heads. Heads are
// unreachable objects from which pointers lead to all other unreachable objects.
#include <algorithm>
#include <array>
#include <random>
#include <vector>

#include "reach/heads.h"
#include "reach/index.h"
#include "reach/reached.h"
#include "reach_memory.h"

using namespace reach;

namespace {

struct Heads {
  std::vector<uint64_t> heads;
  std::vector<std::vector<uint64_t>> kept;
  void head(const Object& object) {
    heads.push_back(object.address());
    kept.emplace_back();
  }
  void keeps(const Object& object) { kept.back().push_back(object.address()); }
};

}  // namespace

TEST(Reach, AnAddressIsFoundInItsObjectAndNowhereElse) {
  Memory memory(16);
  memory.add_slab(2, 2, 64, 96, 80, 84);  // objects of 80 bytes, with gaps of 16 bytes
  memory.add_slab(5, 1, 0, 0, 3000, 1);
  const uint64_t start = kBase + 2 * kPage;
  EXPECT_FALSE(memory.index.find(start - 1));
  EXPECT_FALSE(memory.index.find(start + 63));
  EXPECT_EQ(memory.index.find(start + 64).address(), start + 64);
  EXPECT_EQ(memory.index.find(start + 64 + 79).address(), start + 64);
  EXPECT_FALSE(memory.index.find(start + 64 + 80));
  EXPECT_EQ(memory.index.find(start + 64 + 96 * 83 + 79).place, 83u);
  EXPECT_FALSE(memory.index.find(start + 64 + 96 * 83 + 80));
  EXPECT_EQ(memory.index.find(kBase + 5 * kPage + 2999).address(), kBase + 5 * kPage);
  EXPECT_FALSE(memory.index.find(kBase + 5 * kPage + 3000));
  for (const uint64_t address : {uint64_t{0}, kBase - 1, kBase + 16 * kPage, ~uint64_t{0}})
    EXPECT_FALSE(memory.index.find(address));
}

TEST(Reach, WhatLiesInAPieceTakesItsPlace) {
  Memory memory(16);
  memory.add_slab(0, 8, 0, kPage, kPage, 8);  // eight objects of one page
  memory.add_slab(3, 1, 0, 64, 64, 60);       // page 3 is also a slab of 60 objects
  memory.index.cover(kBase + 5 * kPage);      // page 5 is no object any more
  EXPECT_EQ(memory.index.find(kBase + 3 * kPage + 70).address(), kBase + 3 * kPage + 64);
  EXPECT_EQ(memory.index.count().live, 6u + 60u);
  memory.index.set_dead(kBase + 3 * kPage + 64);
  EXPECT_EQ(memory.index.count().live, 6u + 59u);
  memory.mark_from({kBase + 5 * kPage, kBase + 3 * kPage + 64, kBase + 2 * kPage});
  EXPECT_EQ(memory.index.count().reached, 1u);
}

TEST(Reach, TooLittleMemoryIsSaid) {
  Memory memory(16);
  memory.runs.resize(3);
  memory.states.resize(20);
  Index index(kBase, memory.frames, std::span(memory.runs), std::span(memory.states));
  for (uint64_t page = 0; page < 4; page++)
    index.add(kBase + page * kPage, kPage,
              {kBase + page * kPage, 0, 64, nullptr, 64, 10, 0, false});
  EXPECT_FALSE(index.complete());
  EXPECT_EQ(index.run_count(), 5u);  // including the run of frames without a slab
  EXPECT_EQ(index.object_count(), 40u);
  EXPECT_EQ(index.count().live, 0u);
}

TEST(Reach, OpaqueContentsAreNotFollowedAndWalkedOnesAre) {
  Memory memory(8);
  memory.add_slab(0, 1, 0, 64, 64, 10);
  memory.add_slab(1, 1, 0, 64, 64, 10, true);
  const uint64_t plain = kBase, other = kBase + 64, third = kBase + 128, walked = kBase + kPage;
  *memory.at(plain) = other;
  memory.hidden = third;
  memory.index.find(plain).state() |= kOpaque;
  memory.mark_from({plain, walked + 8});
  EXPECT_TRUE(memory.is_reached(plain));
  EXPECT_FALSE(memory.is_reached(other));
  EXPECT_TRUE(memory.is_reached(walked));
  EXPECT_TRUE(memory.is_reached(third));
  EXPECT_EQ(memory.walked, std::vector<uint64_t>{walked});
}

TEST(Reach, ThePayloadOfAnObjectIsNotFollowed) {
  Memory memory(8);
  memory.index.add(kBase, kPage, {kBase, 0, 64, nullptr, 64, 10, 0, false, 16});
  const uint64_t object = kBase, last = kBase + 64, other = kBase + 128;
  *memory.at(object + 40) = last;
  *memory.at(object + 48) = other;
  memory.mark_from({object});
  EXPECT_TRUE(memory.is_reached(last));
  EXPECT_FALSE(memory.is_reached(other));
}

// One object points to more objects than the stack has entries, and each of those objects
// points to another object. All of them must be reached.
TEST(Reach, AStackThatIsTooSmallOnlyTakesTime) {
  Memory memory(64);
  memory.stack.resize(3);
  memory.add_slab(0, 4, 0, 0, 4 * kPage, 1);
  memory.add_slab(4, 32, 0, 32, 32, 4096);
  const uint64_t first = kBase + 4 * kPage;
  for (uint64_t i = 0; i < 2048; i++) {
    memory.at(kBase)[i] = first + 32 * i;
    *memory.at(first + 32 * i + 8) = first + 32 * (4095 - i) + 5;
  }
  memory.mark_from({kBase + 100});
  EXPECT_EQ(memory.index.count().reached, 1u + 4096u);
  EXPECT_GT(memory.overflows, 0u);
}

// Searches random graphs of objects. Compares the reached objects and the heads with those that the
// test computes from the transitive closure of the graph.
namespace {

// Memory with one page table; each object of a run that walks is an address space with this table.
struct WithTable : Memory {
  using Memory::Memory;
  uint64_t table = 0, page = 0;  // the table's only entry leads to `page`
  template <typename Reached>
  void walk(const Run&, uint64_t, Reached& reached) {
    const Object found = index.find(table);
    if (found.state() & kWalked) return;
    found.state() |= kWalked | kOpaque;
    reached.add(found);
    reached.word(page);
  }
};

}  // namespace

// A stale word leads to the table of a lost address space. The table has no words that are
// pointers, so the page is lost, too; but the space leads to it.
TEST(Reach, APageIsNoHeadAlthoughAWordLeadsToItsTable) {
  WithTable memory(8);
  memory.add_slab(0, 2, 0, kPage, kPage, 2);
  memory.add_slab(2, 1, 0, 64, 64, 10, true);
  const uint64_t space = kBase + 2 * kPage;
  memory.page = kBase;
  memory.table = kBase + kPage;
  for (uint64_t other = space + 64; other < space + 640; other += 64) memory.index.set_dead(other);
  memory.mark_from({memory.table});
  EXPECT_FALSE(memory.is_reached(memory.page));
  Heads found;
  find_heads(memory.index, memory, memory.stack, found);
  EXPECT_EQ(found.heads, std::vector<uint64_t>{space});
  EXPECT_EQ(found.kept, std::vector<std::vector<uint64_t>>{{memory.page}});
}

TEST(Reach, RandomGraphsAreToldRight) {
  std::mt19937_64 random(20240229);
  for (int round = 0; round < 2000; round++) {
    Memory memory(32);
    memory.stack.resize(1 + random() % 20);
    memory.add_slab(1, 2, 64, 48, 48, 40);
    memory.add_slab(3, 1, 0, 8, 8, 60);
    memory.add_slab(5, 6, 8, 5000, 4800, 4);
    memory.add_slab(12, 3, 0, 0, 3 * kPage, 1);
    std::vector<Object> all;
    memory.index.for_each(0, 0, [&](const Object& object) { all.push_back(object); });
    std::shuffle(all.begin(), all.end(), random);
    const size_t n = 1 + random() % 30;
    std::vector<Object> nodes;
    for (size_t i = 0; i < all.size(); i++) {
      if (i < n)
        nodes.push_back(all[i]);
      else
        memory.index.set_dead(all[i].address());
    }
    std::vector<std::vector<bool>> leads(n, std::vector<bool>(n));
    std::vector<std::vector<uint64_t*>> used(n);
    for (size_t edge = random() % (2 * n); edge > 0; edge--) {
      const size_t from = random() % n, to = random() % n;
      uint64_t* const word = memory.at(nodes[from].address()) + random() % (nodes[from].size() / 8);
      if (*word != 0) continue;  // the word already has an edge
      *word = nodes[to].address() + random() % nodes[to].size();
      leads[from][to] = true;
    }
    for (size_t i = 0; i < n; i++) leads[i][i] = true;
    for (size_t k = 0; k < n; k++)  // the transitive closure (Warshall)
      for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++)
          if (leads[i][k] && leads[k][j]) leads[i][j] = true;
    std::vector<uint64_t> roots(1 + random() % 3);
    std::vector<bool> reached(n);
    for (uint64_t& root : roots) {
      if (random() % 3 == 0) continue;
      const size_t node = random() % n;
      root = nodes[node].address() + random() % nodes[node].size();
      for (size_t i = 0; i < n; i++)
        if (leads[node][i]) reached[i] = true;
    }
    memory.mark_from(roots);
    for (size_t i = 0; i < n; i++)
      ASSERT_EQ(memory.is_reached(nodes[i].address()), reached[i]) << "round " << round;

    Heads found;
    find_heads(memory.index, memory, memory.stack, found);
    const auto place = [&](uint64_t address) {
      return static_cast<size_t>(
          std::find_if(nodes.begin(), nodes.end(),
                       [&](const Object& object) { return object.address() == address; }) -
          nodes.begin());
    };
    std::vector<int> seen(n);
    std::vector<bool> is_head(n);
    for (size_t i = 0; i < found.heads.size(); i++) {
      const size_t head = place(found.heads[i]);
      seen[head]++;
      is_head[head] = true;
      for (const uint64_t address : found.kept[i]) {
        seen[place(address)]++;
        ASSERT_TRUE(leads[head][place(address)]) << "round " << round;
      }
    }
    for (size_t i = 0; i < n; i++) {
      ASSERT_EQ(seen[i], reached[i] ? 0 : 1) << "round " << round;
      // If an unreached object outside of a strongly connected component of unreached objects
      // points into the component, the component has no head. Otherwise it has exactly one head.
      bool is_source = !reached[i];
      int heads_of_component = 0;
      for (size_t j = 0; j < n; j++) {
        if (!reached[j] && leads[j][i] && !leads[i][j]) is_source = false;
        if (leads[j][i] && leads[i][j]) heads_of_component += is_head[j];
      }
      ASSERT_EQ(heads_of_component, is_source ? 1 : 0) << "round " << round;
    }
  }
}
