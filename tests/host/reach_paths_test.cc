// Tests two searches in a fake memory (reach_memory.h). The first finds the shortest path from a
// root to an object (kern/reach/paths.h). The second finds all pointers to an object
// (kern/reach/holders.h).
#include <algorithm>
#include <random>
#include <vector>

#include "reach/holders.h"
#include "reach/paths.h"
#include "reach_memory.h"

using namespace reach;

namespace {

constexpr uint64_t kRoots = 0x5000;  // the address that the tests give for the first root word

// A search for paths, and the array that the search uses as its working memory.
struct Search {
  explicit Search(Memory& memory)
      : links(Paths<Memory>::memory_for(memory.index)), paths(memory.index, memory, links) {}
  void roots(const std::vector<uint64_t>& words, uint64_t address = kRoots) {
    paths.words(words.data(), words.data() + words.size(), address);
  }
  std::vector<Link> path(uint64_t address) {
    const auto path = paths.path(paths.index().find(address));
    return {path.begin(), path.end()};
  }

  std::vector<Link> links;
  Paths<Memory> paths;
};

std::vector<Link> holders_of(Memory& memory, uint64_t target, const std::vector<uint64_t>& roots) {
  std::vector<Link> found;
  Holders holders(memory.index, memory, memory.index.find(target),
                  [&](Link link) { found.push_back(link); });
  holders.words(roots.data(), roots.data() + roots.size(), kRoots);
  holders.finish();
  return found;
}

}  // namespace

TEST(ReachPaths, TheShortestOneIsTakenAndTold) {
  Memory memory(8);
  memory.add_slab(0, 1, 0, 64, 64, 20);
  const auto object = [](uint64_t number) { return kBase + 64 * number; };
  // Pointers between objects: 0 → 1 → 2 → 3; 3 → 0; 3 → 3; 4 → 3; 5 → 0. The pointer from 3 to 0
  // closes a circle. The roots point to objects 0 and 4. No pointer leads to object 5.
  *memory.at(object(0) + 8) = object(1);
  *memory.at(object(1) + 16) = object(2) + 40;  // an interior pointer
  *memory.at(object(2)) = object(3);
  *memory.at(object(4) + 56) = object(3) + 63;
  *memory.at(object(3)) = object(0);
  *memory.at(object(3) + 8) = object(3);
  *memory.at(object(5)) = object(0);
  Search search(memory);
  search.roots({7, object(0) + 1, object(4), object(0)});
  search.paths.finish();
  EXPECT_EQ(search.path(object(0)), (std::vector{Link(Link::kRoot, kRoots + 8)}));
  EXPECT_EQ(search.path(object(2) + 5),
            (std::vector{Link(Link::kRoot, kRoots + 8), Link(Link::kWord, object(0) + 8),
                         Link(Link::kWord, object(1) + 16)}));
  EXPECT_EQ(search.path(object(3)),
            (std::vector{Link(Link::kRoot, kRoots + 16), Link(Link::kWord, object(4) + 56)}));
  EXPECT_TRUE(search.path(object(5)).empty());
  EXPECT_TRUE(search.path(kBase + 64 * 20).empty());
  EXPECT_TRUE(search.path(0).empty());
  EXPECT_TRUE(search.path(~uint64_t{0}).empty());
}

TEST(ReachPaths, WhatIsNotLiveLeadsNowhereAndOpaqueObjectsEndAPath) {
  Memory memory(8);
  memory.add_slab(0, 1, 0, 64, 64, 20);
  const uint64_t dead = kBase, opaque = kBase + 64, behind = kBase + 128, lost = kBase + 192;
  *memory.at(dead) = lost;
  *memory.at(opaque) = behind;
  memory.index.set_dead(dead);
  memory.index.find(opaque).state() |= kOpaque;
  Search search(memory);
  search.roots({dead, opaque});
  search.paths.finish();
  EXPECT_TRUE(search.path(dead).empty());
  EXPECT_TRUE(search.path(lost).empty());
  EXPECT_EQ(search.path(opaque).size(), 1u);
  EXPECT_TRUE(search.path(behind).empty());
}

TEST(ReachPaths, WalkersAndOwnersHaveNoWords) {
  Memory memory(8);
  memory.add_slab(0, 1, 0, 64, 64, 10);
  memory.add_slab(1, 1, 0, 64, 64, 10, true);
  const uint64_t hidden = kBase + 128, behind = kBase + 192, walked = kBase + kPage, other = kBase;
  memory.hidden = hidden + 9;
  *memory.at(hidden + 24) = behind;
  Search search(memory);
  search.roots({walked + 8});
  search.paths.word(other);
  search.paths.finish();
  EXPECT_EQ(memory.walked, std::vector<uint64_t>{walked});
  EXPECT_EQ(search.path(behind),
            (std::vector{Link(Link::kRoot, kRoots), Link(Link::kWalker, walked),
                         Link(Link::kWord, hidden + 24)}));
  EXPECT_EQ(search.path(other), (std::vector{Link(Link::kOwner, 0)}));
}

TEST(ReachPaths, AllHoldersAreTold) {
  Memory memory(8);
  memory.add_slab(0, 1, 0, 64, 48, 20);
  memory.add_slab(1, 1, 0, 64, 64, 3, true);
  const auto object = [](uint64_t number) { return kBase + 64 * number; };
  const uint64_t target = object(7), walked = kBase + kPage;
  *memory.at(object(1) + 8) = target;
  *memory.at(object(1) + 40) = target + 47;
  *memory.at(object(2)) = target + 48;  // points between two objects
  *memory.at(object(2) + 8) = target - 1;
  *memory.at(object(3)) = target;  // object 3 is not live (set_dead below)
  *memory.at(object(4)) = target;  // object 4 is not searched (kOpaque below)
  *memory.at(target + 16) = target;
  memory.index.set_dead(object(3));
  memory.index.find(object(4)).state() |= kOpaque;
  memory.index.set_dead(walked + 64);
  memory.hidden = target + 1;
  const std::vector<Link> all = {
      Link(Link::kRoot, kRoots + 8),     Link(Link::kWord, object(1) + 8),
      Link(Link::kWord, object(1) + 40), Link(Link::kWord, target + 16),
      Link(Link::kWalker, walked),       Link(Link::kWalker, walked + 128)};
  EXPECT_EQ(holders_of(memory, target + 3, {1, target, target - 16}), all);
  memory.index.set_dead(target);  // the object's pointer to itself no longer counts
  EXPECT_EQ(holders_of(memory, target, {}).size(), all.size() - 2);
}

TEST(ReachPaths, TooLittleMemoryIsSaid) {
  Memory memory(8);
  memory.add_slab(0, 1, 0, 64, 64, 20);
  const uint64_t first = kBase;
  for (const size_t room : {size_t{0}, size_t{1}, Paths<Memory>::memory_for(memory.index) - 1}) {
    std::vector<Link> links(room);
    Paths<Memory> paths(memory.index, memory, links);
    EXPECT_FALSE(paths.complete());
    paths.words(&first, &first + 1);
    paths.finish();
    EXPECT_TRUE(paths.path(memory.index.find(first)).empty());
  }
  EXPECT_TRUE(Search(memory).paths.complete());

  memory.runs.resize(1);  // an incomplete index makes the paths incomplete too
  Index index(kBase, memory.frames, memory.runs, memory.states);
  index.add(kBase, kPage, {kBase, 0, 64, nullptr, 64, 20, 0, false});
  std::vector<Link> links(1000);
  EXPECT_FALSE(Paths<Memory>(index, memory, links).complete());
}

TEST(ReachPaths, AListMayBeAsLongAsThereAreObjects) {
  Memory memory(256);
  memory.add_slab(0, 256, 0, 16, 16, 65536);
  for (uint64_t i = 0; i + 1 < 65536; i++) *memory.at(kBase + 16 * i + 8) = kBase + 16 * (i + 1);
  Search search(memory);
  search.roots({kBase});
  search.paths.finish();
  EXPECT_EQ(search.path(kBase + 16 * 65535).size(), 65536u);
}

// Compares the lengths of paths with distances that the test computes from its own list of edges,
// by the algorithm of Bellman and Ford: relax each edge until no distance changes.
TEST(ReachPaths, RandomGraphsAreToldRight) {
  std::mt19937_64 random(20260722);
  unsigned unreached = 0, long_paths = 0;
  for (int round = 0; round < 1000; round++) {
    Memory memory(32);
    memory.add_slab(1, 2, 64, 48, 48, 40);
    memory.add_slab(3, 1, 0, 8, 8, 60);
    memory.add_slab(5, 6, 8, 5000, 4800, 4);
    memory.add_slab(12, 3, 0, 0, 3 * kPage, 1);
    std::vector<Object> nodes;
    memory.index.for_each(0, 0, [&](const Object& object) { nodes.push_back(object); });
    std::shuffle(nodes.begin(), nodes.end(), random);
    const size_t n = 1 + random() % 40;
    while (nodes.size() > n) {
      memory.index.set_dead(nodes.back().address());
      nodes.pop_back();
    }
    struct Edge {
      size_t from, to;
      uint64_t word;  // address of the word that has the pointer
    };
    std::vector<Edge> edges;
    for (size_t edge = random() % (2 * n); edge > 0; edge--) {
      const size_t from = random() % n, to = random() % n;
      const uint64_t word = nodes[from].address() + random() % (nodes[from].size() / 8) * 8;
      if (*memory.at(word) != 0) continue;
      *memory.at(word) = nodes[to].address() + random() % nodes[to].size();
      edges.push_back({from, to, word});
    }
    std::vector<uint64_t> roots(1 + random() % 4);
    std::vector<size_t> leads(roots.size(), n);
    std::vector<size_t> distance(n);  // number of links from a root; 0: unreached
    for (size_t i = 0; i < roots.size(); i++) {
      if (random() % 3 == 0) continue;
      leads[i] = random() % n;
      roots[i] = nodes[leads[i]].address() + random() % nodes[leads[i]].size();
      distance[leads[i]] = 1;
    }
    for (bool changed = true; changed;) {
      changed = false;
      for (const Edge& edge : edges) {
        const size_t over = distance[edge.from] + 1;
        if (over == 1 || (distance[edge.to] != 0 && distance[edge.to] <= over)) continue;
        distance[edge.to] = over;
        changed = true;
      }
    }
    Search search(memory);
    search.roots(roots);
    search.paths.finish();
    for (size_t i = 0; i < n; i++) {
      std::vector<Link> leading;
      for (size_t root = 0; root < roots.size(); root++)
        if (leads[root] == i) leading.push_back(Link(Link::kRoot, kRoots + 8 * root));
      for (const Edge& edge : edges)
        if (edge.to == i) leading.push_back(Link(Link::kWord, edge.word));
      std::vector<Link> holders = holders_of(memory, nodes[i].address(), roots);
      const auto by_address = [](Link a, Link b) { return a.address() < b.address(); };
      std::sort(leading.begin(), leading.end(), by_address);
      std::sort(holders.begin(), holders.end(), by_address);
      ASSERT_EQ(holders, leading) << "round " << round;
      const std::vector<Link> path = search.path(nodes[i].address());
      ASSERT_EQ(path.size(), distance[i]) << "round " << round;
      unreached += path.empty();
      long_paths += path.size() > 4;
      // Each link must be a word inside the target of the previous link.
      size_t at = n;
      for (size_t step = 0; step < path.size(); step++) {
        if (step == 0) {
          ASSERT_EQ(path[0].kind(), Link::kRoot);
          at = leads.at((path[0].address() - kRoots) / 8);
          ASSERT_LT(at, n);
          continue;
        }
        ASSERT_EQ(path[step].kind(), Link::kWord);
        const auto edge = std::find_if(edges.begin(), edges.end(), [&](const Edge& candidate) {
          return candidate.word == path[step].address();
        });
        ASSERT_NE(edge, edges.end());
        ASSERT_EQ(edge->from, at) << "round " << round;
        at = edge->to;
      }
      if (!path.empty()) {
        ASSERT_EQ(at, i) << "round " << round;
      }
    }
  }
  EXPECT_GT(unreached, 1000u);
  EXPECT_GT(long_paths, 200u);
}
