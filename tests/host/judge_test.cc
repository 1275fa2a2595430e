// Tests of Judge (user/bin/kmemwatch/judge.h) on simulated systems. kmemwatch uses Judge to find
// the caches that grow. In a look, Judge tests all caches for growth once.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <random>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "kmemwatch/judge.h"
#include "kmemwatch/report.h"
#include "tool/kmemstat.h"

namespace {

using Random = std::mt19937_64;
using Names = std::set<std::string>;

constexpr double kAlpha = 0.01;
constexpr int64_t kObjectSize = 100;

// A simulated kernel. Maps the name of each cache to a function that takes a time in seconds and
// returns the number of live objects at this time.
using System = std::map<std::string, std::function<double(double)>>;

// Watches a system in windows of `samples` samples, one sample a second.
class Watcher {
 public:
  explicit Watcher(System system, double alpha = kAlpha, int samples = kSamples)
      : system_(std::move(system)), samples_(samples), judge_(samples, alpha) {}

  // Runs `count` windows. Returns the caches that any look reports as growing.
  Names windows(int count) {
    Names accused;
    for (int i = 0; i < count * samples_; i++) {
      std::vector<Live> sample;
      for (auto& [name, live] : system_) {
        const int64_t objects = std::llround(live(now_));
        sample.push_back({.name = name, .objects = objects, .bytes = objects * kObjectSize});
      }
      if (judge_.add(now_++, sample)) accused.merge(growing());
    }
    return accused;
  }
  Names growing() const { return judge_.growing(); }
  Growth of(const std::string& name) const {
    for (Growth& growth : judge_.ranked())
      if (growth.name == name) return growth;
    throw std::runtime_error(name);
  }
  System& system() { return system_; }
  Judge& judge() { return judge_; }
  void sleep(double seconds) { now_ += seconds; }

  static constexpr int kSamples = 2;

 private:
  System system_;
  const int samples_;  // samples in a window
  Judge judge_;
  double now_ = 0;
};

// Simulated numbers of live objects. sway() fluctuates around `level`. walk() starts at `level`,
// and rises or falls by 1 in one of `one_in` samples on average.
std::function<double(double)> sway(Random& random, double level, double memory) {
  return [&random, level, memory, at = 0.0](double) mutable {
    std::normal_distribution<double> push(0, 0.05 * level + 1);
    return level + std::max(-level, at = memory * at + push(random));
  };
}
std::function<double(double)> walk(Random& random, double level, unsigned one_in) {
  return [&random, at = level, one_in](double) mutable {
    if (random() % one_in == 0) at = std::abs(at + (random() % 2 == 0 ? 1 : -1));
    return at;
  };
}

// Sixty caches of a system that is under load but has no leak.
System clean(Random& random) {
  System system;
  for (int i = 0; i < 10; i++) {
    const std::string number = std::to_string(i);
    system["quick" + number] = sway(random, 10 * i, 0.3);
    system["slow" + number] = sway(random, 10 * i, 0.98);
    system["walk" + number] = walk(random, 100 * i, 1);
    system["seldom" + number] = walk(random, 1000, 40);
    system["constant" + number] = [i](double) { return i; };
    system["fills" + number] = [i](double t) { return 300 * (1 - std::exp(-t / (4 + i))); };
  }
  return system;
}

TEST(Judge, ALeakAmongManyIsFoundAndNothingElse) {
  for (const double windows_of_one : {0.5, 1.0, 2.0}) {
    Random random(1);
    System system = clean(random);
    const double rate = 1 / (windows_of_one * Watcher::kSamples);
    system["leak"] = [&random, rate](double t) {
      return std::floor(t * rate) + static_cast<double>(random() % 4);
    };
    Watcher watcher(system);
    EXPECT_EQ(watcher.windows(130), Names{"leak"});
    const Growth leak = watcher.of("leak");
    EXPECT_TRUE(leak.grows);
    EXPECT_LE(leak.p, kAlpha);
    EXPECT_GT(leak.since, 0);
    EXPECT_LE(leak.objects_a_second.low, rate);
    EXPECT_GE(leak.objects_a_second.high, rate);
    EXPECT_NEAR(leak.bytes_a_second.estimate, kObjectSize * leak.objects_a_second.estimate, 1e-6);
    EXPECT_EQ(watcher.judge().ranked().front().name, "leak");
  }
}

TEST(Judge, SoonestAfterTwentyFourWindows) {
  Watcher watcher({{"leak", [](double t) { return t; }}});
  EXPECT_EQ(watcher.windows(24), Names{});
  EXPECT_EQ(watcher.judge().looks(), 0u);
  EXPECT_EQ(watcher.windows(1), Names{"leak"});
}

TEST(Judge, SlowLeaksTakeTime) {
  Random random(2);
  System system = clean(random);
  system["leak"] = [&random](double t) {
    return std::floor(t / 40) + static_cast<double>(random() % 10);
  };
  Watcher watcher(system);
  EXPECT_EQ(watcher.windows(2000), Names{"leak"});
}

TEST(Judge, WhatFillsUpAndThenStays) {
  for (const double windows : {1, 3, 10, 16}) {
    const double samples = windows * Watcher::kSamples;
    Watcher watcher({
        {"curve", [=](double t) { return 500 * (1 - std::exp(-t / samples)); }},
        {"ramp", [=](double t) { return std::min(t, samples) * 10; }},
        {"stairs", [=](double t) { return std::floor(std::min(t, 3 * samples) / samples) * 50; }},
        {"step", [=](double t) { return t < 30 * Watcher::kSamples ? 3 : 400; }},
    });
    EXPECT_EQ(watcher.windows(1000), Names{}) << windows;
  }
  // If a cache fills for a long time, Judge reports at first that the cache grows. After the number
  // of objects has been constant for some time, Judge stops reporting the cache.
  Watcher watcher({{"ramp", [](double t) { return std::min(t, 400.0); }}});
  EXPECT_EQ(watcher.windows(100), Names{"ramp"});
  watcher.windows(1000);
  EXPECT_EQ(watcher.growing(), Names{});
  EXPECT_GT(watcher.of("ramp").since, 0);
}

TEST(Judge, SawTeeth) {
  for (const int windows : {2, 5, 11, 20}) {
    Watcher watcher(
        {{"teeth", [=](double t) { return std::fmod(t, windows * Watcher::kSamples); }}});
    EXPECT_EQ(watcher.windows(2000), Names{}) << windows;
  }
}

TEST(Judge, CleanSystemsForThousandsOfLooks) {
  constexpr int kWindows = 8'000;  // with 30,000 windows (9,990 looks) no cache is accused, either
  Random random(1);
  Watcher watcher(clean(random), kAlpha, 1);
  EXPECT_EQ(watcher.windows(kWindows), Names{});
  EXPECT_GE(watcher.judge().looks(), 2'600u);
}

TEST(Judge, WrongAsOftenAsAlphaSays) {
  // Each run judges sixty random walks, the hardest case. alpha limits the probability of a wrong
  // accusation in a whole run. If alpha were only the limit for each look, at least one cache would
  // be accused wrongly in nearly every run.
  constexpr int kRuns = 10;
  int wrong = 0;
  for (int run = 0; run < kRuns; run++) {
    Random random(static_cast<unsigned>(run));
    System system;
    for (int i = 0; i < 60; i++) system["walk" + std::to_string(i)] = walk(random, 10'000, 1);
    wrong += Watcher(system, 0.2, 1).windows(600).empty() ? 0 : 1;
  }
  EXPECT_LE(wrong, kRuns * 0.2 + 3);
  RecordProperty("wrong", wrong);
}

TEST(Judge, ALeakAfterAQuietWeek) {
  Random random(3);
  constexpr double kWeek = 30'000 * Watcher::kSamples;
  System system;
  system["leak"] = [&random](double t) {
    return std::max(0.0, t - kWeek) + static_cast<double>(random() % 3);
  };
  system["other"] = sway(random, 50, 0.9);
  Watcher watcher(system);
  EXPECT_EQ(watcher.windows(30'000), Names{});
  EXPECT_EQ(watcher.windows(70), Names{"leak"});
}

TEST(Judge, ALeakThatEnds) {
  Watcher watcher({{"leak", [](double t) { return std::min(t, 400.0); }}});
  EXPECT_EQ(watcher.windows(150), Names{"leak"});
  EXPECT_EQ(watcher.growing(), Names{"leak"});
  watcher.windows(200);
  EXPECT_EQ(watcher.growing(), Names{});
  EXPECT_EQ(watcher.of("leak").objects, 400);
  watcher.system()["leak"] = [](double t) { return t; };
  watcher.windows(300);
  EXPECT_EQ(watcher.growing(), Names{"leak"});
}

TEST(Judge, CachesComeAndGo) {
  Watcher watcher({{"first", [](double) { return 5; }}});
  watcher.windows(101);
  watcher.system()["late"] = [](double t) { return t; };
  EXPECT_EQ(watcher.windows(20), Names{});
  EXPECT_EQ(watcher.windows(20), Names{"late"});
  EXPECT_NEAR(watcher.of("late").objects_a_second.estimate, 1, 1e-9);
  watcher.system().erase("late");
  watcher.windows(1);
  EXPECT_EQ(watcher.judge().ranked().size(), 1u);
  watcher.system()["late"] = [](double) { return 3; };
  EXPECT_EQ(watcher.windows(100), Names{});
}

TEST(Judge, TimeInWhichNothingRuns) {
  Watcher watcher({{"leak", [](double t) { return t; }}, {"constant", [](double) { return 1; }}});
  watcher.windows(10);
  watcher.sleep(100'000);
  EXPECT_EQ(watcher.windows(10), Names{});
  watcher.windows(100);
  EXPECT_EQ(watcher.growing(), Names{"leak"});
  EXPECT_NEAR(watcher.of("leak").objects_a_second.estimate, 1, 1e-6);
}

std::string printed(const WatchArguments& arguments, const Report& report) {
  std::ostringstream text;
  print_report(text, arguments, report);
  return text.str().substr(text.str().find(']') + 2);
}

TEST(KmemwatchReport, Table) {
  const Slope slow{.estimate = 0.0999, .low = 0.0952, .high = 0.1041};
  const Slope fast{.estimate = 12'345.6, .low = -3.21, .high = 2e6};
  Report report{.seconds = 480.4, .growths = {}, .traces = {}, .missed = 0, .judged = false};
  EXPECT_EQ(printed({}, report), "after 480 s: too early to judge\n");
  report.judged = true;
  EXPECT_EQ(printed({}, report), "after 480 s: nothing grows\n");
  report.missed = 3;
  report.growths = {
      {.name = "debug_64",
       .objects = 48,
       .objects_a_second = slow,
       .bytes_a_second = fast,
       .p = 2.31e-5,
       .alone = 1e-7,
       .grows = true,
       .since = 480},
      {.name = "kmem_magazine.128",
       .objects = 123456789,
       .objects_a_second = fast,
       .bytes_a_second = slow,
       .p = 1,
       .alone = 0.3,
       .grows = false,
       .since = 10},
      {.name = "pipe",
       .objects = 7,
       .objects_a_second = slow,
       .bytes_a_second = slow,
       .p = 0.26,
       .alone = 0.3,
       .grows = false,
       .since = 0},
  };
  report.traces = {{"debug_64", "running"}, {"kmem_magazine.128", "stopped"}, {"pipe", "off"}};
  const std::string head =
      "NAME                   LIVE  OBJECTS/S  95 %                  BYTES/S      P  STATE\n";
  const std::string lines =
      "debug_64                 48     0.0999  0.0952 to 0.104         12346  2e-05  grows, "
      "traced\n"
      "kmem_magazine.128 123456789      12346  -3.21 to 2000000       0.0999      1  grew, trace "
      "stopped\n";
  EXPECT_EQ(printed({}, report), "after 480 s: 1 grows; 3 samples missed\n" + head + lines);
  WatchArguments verbose;
  verbose.verbose = true;
  EXPECT_EQ(printed(verbose, report),
            "after 480 s: 1 grows; 3 samples missed\n" + head + lines +
                "pipe                      7     0.0999  0.0952 to 0.104        0.0999    0.3\n");
}

TEST(Kmemstat, WhatItsLinesSay) {
  const std::vector<KmemstatLine> lines = parse_kmemstat(
      "NAME   T  OBJSIZE  TOTAL  ALLOCATED  LIVE  ALLOCS  FREES TRACED\n"
      "base   A     4096  523595776       0     0       0      0 off\n"
      "  kmem_cache   S      768   45056   39936    52   53   1 running");
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_TRUE(lines[0].is_arena);
  EXPECT_EQ(lines[0].total_bytes, 523595776u);
  EXPECT_EQ(lines[1].name, "kmem_cache");
  EXPECT_FALSE(lines[1].is_arena);
  EXPECT_EQ(lines[1].object_size, 768u);
  EXPECT_EQ(lines[1].allocated_bytes, 39936u);
  EXPECT_EQ(lines[1].live, 52u);
  EXPECT_EQ(lines[1].allocations, 53u);
  EXPECT_EQ(lines[1].frees, 1u);
  EXPECT_EQ(lines[1].trace, "running");
}

TEST(Kmemstat, DamagedText) {
  for (const char* text :
       {"", "NAME T OBJSIZE TOTAL ALLOCATED LIVE ALLOCS FREES TRACED\n", "\n", "x\n",
        "a S 1 2 3 4 5 6\n", "a S 1 2 3 4 5 6 off more\n", "a B 1 2 3 4 5 6 off\n",
        "a S 1 2 3 -4 5 6 off\n", "a S 1 2 3 4x 5 6 off\n",
        "a S 1 2 3 99999999999999999999999 5 6 off\n"}) {
    EXPECT_THROW(parse_kmemstat(text), std::runtime_error) << text;
  }
}

}  // namespace
