// Tests whether a series of numbers, oldest first, grows, and with which certainty.
//
// Two kinds of series look like a leak and are none. Each kind has a test, and a series grows only
// if both tests reject their kind: its p is the larger of the two p (an intersection-union test;
// Berger, "Multiparameter hypothesis testing and acceptance sampling", Technometrics 24, 1982).
//
//   noise       Numbers that vary around a level, in any order. Mann and Kendall's test counts the
//               pairs of which the later number is the larger (Mann, "Nonparametric tests against
//               trend", Econometrica 13, 1945; Kendall, "Rank correlation methods", 4th ed., 1975),
//               corrected for ties.
//   wandering   A random walk without drift: each number depends on the previous one, and a step up
//               is as likely as a step down. Mann and Kendall's test takes a third of all walks for
//               growth. So the steps are tested: their mean against their spread, by Student's t,
//               which holds for steps of very different sizes too (Bakirov and Szekely, "Student's
//               t-test for Gaussian scale mixtures", J. Math. Sci. 139, 2006; Ibragimov and Muller,
//               "t-statistic based correlation and heterogeneity robust inference", JBES 28, 2010).
//               A series with N steps that are not 0 has a p of at least 1 / 2^N, the chance that N
//               tosses of a coin all show heads. So one such step proves nothing, nor do three,
//               however high they are. Numbers that keep returning to a rising line, as those of a
//               leak under load do, prove much.
//
// The slope is Theil and Sen's, the median of the slopes of all pairs, with Sen's interval (Theil,
// "A rank-invariant method of linear and polynomial regression analysis", Proc. Kon. Ned. Akad.
// Wetensch. A 53, 1950; Sen, "Estimates of the regression coefficient based on Kendall's tau", JASA
// 63, 1968): a few outliers do not move it.
//
// No test distinguishes growth that will end from growth that will not. keeps_growing() tests
// whether the growth is ending: a cache that fills up grows more slowly, then stands still.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

// The chance that noise alone gives numbers that rise as regularly as these, or more so. 1 if there
// are fewer than three numbers or all are equal.
double mann_kendall_p(std::span<const int64_t> series);

// The chance that a walk without drift rises as far as the series. The numbers are minima of
// windows (windows.h).
double walk_p(std::span<const int64_t> series);

// The larger of mann_kendall_p() and walk_p(). Exception: if walk_p() is 0.5 or more, growth_p()
// returns walk_p() without the other test.
double growth_p(std::span<const int64_t> series);

struct Slope {
  double estimate = 0;       // units of the series for a unit of time
  double low = 0, high = 0;  // bounds of the interval that contains the slope in 95 of 100 cases
};
// `times` has the time of each number of the series; the times rise.
Slope theil_sen(std::span<const double> times, std::span<const int64_t> series);

// The length of the longest standstill, counted in numbers of the series. A number is a low if all
// later numbers are larger; the last number is a low, too. A standstill ends at a low. It begins
// after the low before that, or at the start of the series.
std::size_t longest_standstill(std::span<const int64_t> series);

// True if the series grows all the time: its longest_standstill() is at most a quarter of its
// length, and its later half rises at least half as fast as its earlier half.
bool keeps_growing(std::span<const int64_t> series);

// Holm's correction (Holm, "A simple sequentially rejective multiple test procedure", Scand. J.
// Statist. 6, 1979) of the chances `p` of several tests. If tests with corrected values up to a
// bound count as positive, the chance that any of them is positive by accident is at most that
// bound.
std::vector<double> holm(std::span<const double> p);
