// Tests user/bin/kmemwatch/trend.h, which looks for growth in a series of samples with statistical
// tests. Each statistical test returns a probability p. Some cases below compare p with the exact
// probability. Other cases simulate many series, and count the series in which p is small.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <random>
#include <span>
#include <vector>

#include "kmemwatch/trend.h"

namespace {

using Series = std::vector<int64_t>;
using Random = std::mt19937_64;

std::vector<double> times_of(const Series& series) {
  std::vector<double> times(series.size());
  std::iota(times.begin(), times.end(), 0);
  return times;
}

Series made(std::size_t count, auto&& value) {
  Series series;
  for (std::size_t i = 0; i < count; i++)
    series.push_back(std::llround(value(static_cast<double>(i))));
  return series;
}

// Returns the minima of `count` windows. The eight samples of a window are results of next().
Series minima(std::size_t count, auto&& next) {
  return made(count, [&](double) {
    double least = next();
    for (int i = 1; i < 8; i++) least = std::min(least, next());
    return least;
  });
}

// Calls p_of_one() `runs` times. Returns the fraction of results that are at most `bound`.
double share(int runs, double bound, auto&& p_of_one) {
  int below = 0;
  for (int i = 0; i < runs; i++) below += p_of_one() <= bound;
  return static_cast<double>(below) / runs;
}

TEST(Trend, MannKendallByHand) {
  // Computed by hand. S, the statistic of Mann and Kendall, is 10 for the first series, with a
  // variance of 50/3. S is 5 for the second series, with a variance of 23/3, which is corrected for
  // the tie.
  EXPECT_NEAR(mann_kendall_p(Series{1, 2, 3, 4, 5}), 0.01375, 1e-5);
  EXPECT_NEAR(mann_kendall_p(Series{1, 2, 2, 3}), 0.0743, 1e-4);
  for (const Series& series :
       {Series{}, Series{1}, Series{1, 2}, Series{7, 7, 7, 7}, Series{4, 3, 2, 1}})
    EXPECT_EQ(mann_kendall_p(series), 1);
}

TEST(Trend, MannKendallAgainstAllOrders) {
  // The second series has ties, for which mann_kendall_p() corrects the variance.
  for (Series series : {Series{1, 2, 3, 4, 5, 6, 7}, Series{1, 1, 2, 2, 2, 3, 4, 5}}) {
    const auto risings = [](const Series& of) {
      int count = 0;
      for (std::size_t i = 1; i < of.size(); i++)
        for (std::size_t j = 0; j < i; j++) count += (of[i] > of[j]) - (of[i] < of[j]);
      return count;
    };
    std::vector<std::pair<int, double>> all;  // S and p of each order
    do all.emplace_back(risings(series), mann_kendall_p(series));
    while (std::next_permutation(series.begin(), series.end()));
    for (const auto& [count, p] : all) {
      if (count <= 0) continue;
      const auto above = std::count_if(all.begin(), all.end(),
                                       [&](const auto& other) { return other.first >= count; });
      const double exact = static_cast<double>(above) / static_cast<double>(all.size());
      EXPECT_NEAR(p, exact, 0.015) << count;
    }
  }
}

TEST(Trend, SlopeOfALineWithStrangeNumbers) {
  Series series = made(40, [](double i) { return 3 * i + 100; });
  const Slope clean = theil_sen(times_of(series), series);
  EXPECT_EQ(clean.estimate, 3);
  EXPECT_EQ(clean.low, 3);
  EXPECT_EQ(clean.high, 3);
  for (const std::size_t strange : {3, 17, 22, 36}) series[strange] = 100'000;
  const Slope slope = theil_sen(times_of(series), series);
  EXPECT_EQ(slope.estimate, 3);
  EXPECT_LE(slope.low, 3);
  EXPECT_GE(slope.high, 3);
  EXPECT_EQ(theil_sen({}, {}).estimate, 0);
  EXPECT_EQ(theil_sen(times_of({5}), Series{5}).high, 0);
}

TEST(Trend, SlopeIsInItsInterval) {
  Random random(1);
  std::normal_distribution<double> noise(0, 40);
  int inside = 0;
  constexpr int kRuns = 2000;
  for (int run = 0; run < kRuns; run++) {
    const Series series = made(30, [&](double i) { return 5 * i + noise(random); });
    const Slope slope = theil_sen(times_of(series), series);
    inside += slope.low <= 5 && 5 <= slope.high;
    EXPECT_LE(slope.low, slope.estimate);
    EXPECT_LE(slope.estimate, slope.high);
  }
  EXPECT_GT(inside, kRuns * 93 / 100);
  EXPECT_LT(inside, kRuns * 97 / 100);
}

// Random walks are the hard case: for at least 20 % of them, the p of Mann and Kendall's test is at
// most 0.01. walk_p() and growth_p() must be at most 0.01 for only about 1 % of the walks.
TEST(Trend, WalksAreAccusedAsRarelyAsPSays) {
  Random random(2);
  std::normal_distribution<double> normal(0, 10);
  std::cauchy_distribution<double> wild;
  const auto coin = [&] { return random() % 2 == 0 ? 1.0 : -1.0; };
  const std::vector<std::function<double()>> steps = {
      coin,
      [&] { return normal(random); },
      [&] { return random() % 16 == 0 ? coin() : 0; },
      [&] { return std::clamp(wild(random), -1e6, 1e6); },
      [&] { return random() % 30 == 0 ? normal(random) : 0; },
  };
  for (const auto& step : steps) {
    double at = 10'000;
    const auto walk = [&] { return minima(24, [&] { return at += step(); }); };
    EXPECT_LE(share(20'000, 0.01, [&] { return walk_p(walk()); }), 0.0125);
    EXPECT_LE(share(20'000, 0.01, [&] { return growth_p(walk()); }), 0.011);
    EXPECT_GE(share(500, 0.01, [&] { return mann_kendall_p(walk()); }), 0.2);
  }
}

TEST(Trend, NoiseIsAccusedAsRarelyAsPSays) {
  Random random(3);
  std::normal_distribution<double> normal(100, 10);
  std::poisson_distribution<int> rare(0.3);
  double memory = 0;
  EXPECT_LE(share(20'000, 0.01,
                  [&] { return mann_kendall_p(made(24, [&](double) { return normal(random); })); }),
            0.0125);
  EXPECT_LE(share(20'000, 0.01,
                  [&] { return mann_kendall_p(made(24, [&](double) { return rare(random); })); }),
            0.0125);
  EXPECT_EQ(share(20'000, 0.01,
                  [&] { return growth_p(made(24, [&](double) { return normal(random); })); }),
            0);
  // This load returns to its level slowly. The test of Mann and Kendall assumes independent
  // samples, so it finds growth in this load too often.
  const auto slow = [&] {
    return minima(64, [&] { return memory = 0.97 * memory + normal(random) - 100; });
  };
  EXPECT_GE(share(1000, 0.01, [&] { return mann_kendall_p(slow()); }), 0.03);
  EXPECT_EQ(share(20'000, 0.01, [&] { return growth_p(slow()); }), 0);
}

TEST(Trend, StepsProveNothing) {
  for (const double height : {1.0, 1000.0, 1e12}) {
    EXPECT_GT(walk_p(made(64, [&](double i) { return i < 32 ? 0 : height; })), 0.1);
    EXPECT_GT(walk_p(made(64, [&](double i) { return height * std::floor(i / 16); })), 0.03);
  }
  // By chance, five steps up are as likely as five heads in five tosses of a coin.
  EXPECT_GE(walk_p(made(6, [](double i) { return i; })), 1.0 / 32);
  EXPECT_NEAR(walk_p(made(24, [](double i) { return i; })), std::exp2(-23), 1e-12);
}

TEST(Trend, LeaksUnderLoadAreSure) {
  Random random(4);
  std::normal_distribution<double> load(0, 1);
  // A leak of one object in each window. The standard deviation of the load is one object.
  EXPECT_GE(share(1000, 1e-3,
                  [&] { return growth_p(made(64, [&](double i) { return i + load(random); })); }),
            0.99);
  // A leak of two objects in each window, with only 24 windows.
  EXPECT_GE(share(1000, 1e-4,
                  [&] {
                    return growth_p(made(24, [&](double i) { return 2 * i + 0.5 * load(random); }));
                  }),
            0.99);
}

TEST(Trend, WhatStandsStill) {
  EXPECT_EQ(longest_standstill({}), 0u);
  EXPECT_EQ(longest_standstill(Series{1, 2, 3, 4}), 1u);
  EXPECT_EQ(longest_standstill(Series{1, 2, 2, 2, 3}), 3u);
  EXPECT_EQ(longest_standstill(Series{5, 6, 7, 4, 8}), 4u);
  EXPECT_EQ(longest_standstill(Series{4, 3, 2, 1}), 4u);
  EXPECT_EQ(longest_standstill(Series{1, 2, 9, 2, 9, 2, 3}), 5u);
}

TEST(Trend, WhatKeepsGrowing) {
  EXPECT_TRUE(keeps_growing(made(64, [](double i) { return i; })));
  EXPECT_TRUE(keeps_growing(made(64, [](double i) { return std::floor(i / 4); })));
  EXPECT_TRUE(keeps_growing(made(64, [](double i) { return i * i; })));
  EXPECT_FALSE(keeps_growing(made(64, [](double i) { return -i; })));
  EXPECT_FALSE(keeps_growing(made(64, [](double) { return 7; })));
  EXPECT_FALSE(keeps_growing(made(64, [](double i) { return i < 40 ? i : 40; })));
  EXPECT_FALSE(keeps_growing(made(64, [](double i) { return i < 20 ? 0 : i; })));
  EXPECT_FALSE(keeps_growing(made(64, [](double i) { return 1000 * (1 - std::exp(-i / 20)); })));
  EXPECT_FALSE(keeps_growing(made(64, [](double i) { return 1000 * std::log(i + 1); })));
  EXPECT_FALSE(keeps_growing({}));
  EXPECT_FALSE(keeps_growing(Series{1}));
}

TEST(Trend, HolmByHand) {
  const std::vector<double> p = {0.01, 0.04, 0.03, 0.005};
  const std::vector<double> corrected = holm(p);
  const std::vector<double> wanted = {0.03, 0.06, 0.06, 0.02};
  for (std::size_t i = 0; i < p.size(); i++) EXPECT_NEAR(corrected[i], wanted[i], 1e-12);
  EXPECT_EQ(holm(std::vector<double>{0.5, 0.9, 0.9}), std::vector<double>(3, 1));
  EXPECT_TRUE(holm({}).empty());
}

}  // namespace
