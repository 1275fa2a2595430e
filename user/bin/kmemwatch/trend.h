// Tests whether a series of numbers, oldest first, grows, and with which certainty.
//
// Two kinds of series can look like a leak although they do not grow: noise and random walks. For
// each kind there is a test, which returns p: the chance that a series of this kind rises as much
// as the given series. A series counts as growing only if both p are small. So the p of growth is
// the larger of the two (an intersection-union test; Berger, "Multiparameter hypothesis testing and
// acceptance sampling", Technometrics 24, 1982).
//
//   noise       Numbers that vary around a level, in any order. Mann and Kendall's test counts the
//               pairs of numbers in which the later number is larger, and subtracts the pairs in
//               which it is smaller. The variance of the result is corrected for equal numbers
//               (Mann, "Nonparametric tests against trend", Econometrica 13, 1945; Kendall, "Rank
//               correlation methods", 4th ed., 1975).
//   wandering   A random walk without drift: each number depends on the previous one, and a step up
//               is as likely as a step down. Mann and Kendall's test takes a third of all walks for
//               growth. So Student's t-test compares the mean of the steps with their spread. It is
//               valid even for steps of very different sizes (Bakirov and Szekely, "Student's
//               t-test for Gaussian scale mixtures", J. Math. Sci. 139, 2006; Ibragimov and Muller,
//               "t-statistic based correlation and heterogeneity robust inference", JBES 28, 2010).
//               A series with N steps that are not 0 has a p of at least 1 / 2^N, the chance that N
//               tosses of a coin all show heads. So one high step, or three, are not enough to
//               count as growth. Under load, the numbers of a leak keep returning to a rising line.
//               Such a series gets a small p.
//
// The slope is the median of the slopes of all pairs, with an interval by Sen (Theil, "A
// rank-invariant method of linear and polynomial regression analysis", Proc. Kon. Ned. Akad.
// Wetensch. A 53, 1950; Sen, "Estimates of the regression coefficient based on Kendall's tau", JASA
// 63, 1968). A few outliers do not change this slope.
//
// No test can tell whether growth will end. But keeps_growing() can tell whether growth has become
// slower: a cache that fills up grows more slowly, then stands still.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

// The chance that noise rises at least as regularly as the series. 1 if the series has fewer than
// three numbers, or does not have more rising pairs of numbers than falling pairs.
double mann_kendall_p(std::span<const int64_t> series);

// The chance that a walk without drift rises as far as the series. 1 if the series has fewer than
// three numbers, or its last number is not larger than its first. The series must consist of the
// minima of neighbouring windows (windows.h), because the test allows for their correlation.
double walk_p(std::span<const int64_t> series);

// The larger of mann_kendall_p() and walk_p(). Exception: if walk_p() is 0.5 or more, growth_p()
// returns walk_p() without the other test.
double growth_p(std::span<const int64_t> series);

struct Slope {
  double estimate = 0;       // units of the series per unit of time
  double low = 0, high = 0;  // bounds of the interval that contains the slope in 95 of 100 cases
};
// `times` has the time of each number of the series; the times rise.
Slope theil_sen(std::span<const double> times, std::span<const int64_t> series);

// The length of the longest standstill, counted in numbers of the series. A low is a number that is
// smaller than all later numbers; the last number is always a low. The lows divide the series into
// standstills: each standstill ends with a low, and the next number begins the next standstill.
std::size_t longest_standstill(std::span<const int64_t> series);

// True if the series grows all the time: its longest_standstill() is at most a quarter of its
// length, and its later half rises at least half as fast as its earlier half.
bool keeps_growing(std::span<const int64_t> series);

// Corrects the chances `p` of several tests (Holm, "A simple sequentially rejective multiple test
// procedure", Scand. J. Statist. 6, 1979). The caller chooses a bound, and counts a test as
// positive if the test's corrected chance is at most the bound. The chance of any false positive is
// then at most the bound.
std::vector<double> holm(std::span<const double> p);
