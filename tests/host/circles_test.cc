// find_circles() (kern/reach/circles_impl.h): the search for circles of tasks that wait for each
// other's locks.
#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <vector>

#include "reach/circles_impl.h"

using namespace reach;

namespace {

// Records the circles that find_circles() reports. Each circle is a list of tasks. Each task waits
// for a lock that the next task owns. The last task waits for a lock that the first task owns.
struct Told {
  std::vector<std::vector<uint64_t>> circles;
  size_t expected = 0;  // members of the current circle not yet reported
  void circle(size_t size) {
    EXPECT_EQ(expected, 0u);
    expected = size;
    circles.emplace_back();
  }
  void member(const Wait& wait) {
    ASSERT_GT(expected, 0u);
    expected--;
    circles.back().push_back(wait.task);
  }
};

// For each waiting task: the owner of the lock that the task waits for.
using Owners = std::map<uint64_t, uint64_t>;

Told search(const Owners& owners) {
  std::vector<Wait> waits;
  for (const auto& [task, owner] : owners) waits.push_back({task, task + 1, owner});
  std::reverse(waits.begin(), waits.end());
  Told told;
  find_circles(waits, told);
  EXPECT_EQ(told.expected, 0u);
  EXPECT_EQ(waits.size(), owners.size());
  for (const Wait& wait : waits) EXPECT_EQ(wait.lock, wait.task + 1);
  return told;
}

// Finds the circles by their definition: a task is in a circle if the walk from owner to owner
// leads back to the task. Returns each circle as a set of tasks.
std::set<std::set<uint64_t>> circles_of(const Owners& owners) {
  std::set<std::set<uint64_t>> circles;
  for (const auto& [task, first] : owners) {
    std::set<uint64_t> seen{task};
    uint64_t at = first;
    for (size_t i = 0; i < owners.size() && at != task && owners.contains(at); i++) {
      seen.insert(at);
      at = owners.at(at);
    }
    if (at == task) circles.insert(seen);
  }
  return circles;
}

void expect_right(const Owners& owners) {
  const Told told = search(owners);
  std::set<std::set<uint64_t>> found;
  for (const std::vector<uint64_t>& circle : told.circles) {
    for (size_t i = 0; i < circle.size(); i++)
      EXPECT_EQ(owners.at(circle[i]), circle[(i + 1) % circle.size()]);
    const std::set<uint64_t> tasks(circle.begin(), circle.end());
    EXPECT_EQ(tasks.size(), circle.size());
    EXPECT_TRUE(found.insert(tasks).second) << "a circle is told twice";
  }
  EXPECT_EQ(found, circles_of(owners));
}

}  // namespace

TEST(Circles, NobodyWaits) {
  EXPECT_TRUE(search({}).circles.empty());
}

TEST(Circles, AChainIsNone) {
  Owners chain;
  for (uint64_t i = 1; i < 10'000; i++) chain[i * 8] = (i + 1) * 8;  // the last owner runs
  EXPECT_TRUE(search(chain).circles.empty());
  chain[10'000 * 8] = 0;  // now the last task waits for a lock without an owner
  EXPECT_TRUE(search(chain).circles.empty());
}

TEST(Circles, TheEndOfAChainIsNoPartOfIt) {
  Owners owners;
  for (uint64_t i = 1; i < 1000; i++) owners[i * 8] = (i + 1) * 8;
  owners[1000 * 8] = 998 * 8;
  const Told told = search(owners);
  ASSERT_EQ(told.circles.size(), 1u);
  EXPECT_EQ(told.circles[0].size(), 3u);
  expect_right(owners);
}

TEST(Circles, SmallOnes) {
  expect_right({{8, 8}});
  expect_right({{8, 16}, {16, 8}});
  expect_right({{8, 16}, {16, 24}, {24, 8}});
  expect_right({{8, 16}, {16, 8}, {24, 32}, {32, 24}, {40, 8}, {48, 40}, {56, 64}});
}

TEST(Circles, RandomOnes) {
  const uint64_t seed = std::random_device{}();
  std::mt19937_64 random(seed);
  size_t circles = 0;
  for (unsigned round = 0; round < 2000; round++) {
    // About seven of eight tasks wait. Some owners are waiting tasks; other owners are not.
    const uint64_t tasks = 1 + random() % 40, spread = 1 + random() % 60;
    Owners owners;
    for (uint64_t i = 1; i <= tasks; i++) {
      if (random() % 8 != 0) owners[i * 8] = random() % (tasks + spread) * 8 + (random() % 16 == 0);
    }
    expect_right(owners);
    circles += circles_of(owners).size();
    if (testing::Test::HasFailure()) FAIL() << "seed " << seed << ", round " << round;
  }
  EXPECT_GT(circles, 100u);
}
