// Does a series grow, and with which certainty? About one series of numbers, oldest first.
//
// Two kinds of series look like a leak and are none. Each has a test, and a series grows only if
// both are refused: its p is the larger one (an intersection-union test; Berger, "Multiparameter
// hypothesis testing and acceptance sampling", Technometrics 24, 1982).
//
//   noise       Numbers that sway about a level, in any order. Mann and Kendall's test counts the
//               pairs of which the later number is the larger (Mann, "Nonparametric tests against
//               trend", Econometrica 13, 1945; Kendall, "Rank correlation methods", 4th ed., 1975),
//               corrected for ties.
//   wandering   A random walk without drift: each number depends on the previous one, and a step up
//               is as likely as a step down. Mann and Kendall's test takes a third of all walks for
//               growth. Here the steps count: their mean against their spread, by Student's t,
//               which holds for steps of very different sizes too (Bakirov and Szekely, "Student's
//               t-test for Gaussian scale mixtures", J. Math. Sci. 139, 2006; Ibragimov and Muller,
//               "t-statistic based correlation and heterogeneity robust inference", JBES 28, 2010).
//               N steps never prove more than N tosses of a coin that all fall alike. So one step,
//               or three, of any height, prove nothing; numbers that return to a trend, as those of
//               a leak under load do, prove much.
//
// The slope is Theil and Sen's, the median of the slopes of all pairs, with Sen's interval (Theil,
// "A rank-invariant method of linear and polynomial regression analysis", Proc. Kon. Ned. Akad.
// Wetensch. A 53, 1950; Sen, "Estimates of the regression coefficient based on Kendall's tau", JASA
// 63, 1968): a few outliers do not move it.
//
// No test distinguishes growth that will end from growth that will not. keeps_growing tests whether
// it is ending: a cache that fills up grows more slowly, then stands still.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

// The chance that noise alone gives so much order, or more, of rising numbers. 1 if there are fewer
// than three numbers or all are equal.
double mann_kendall_p(std::span<const int64_t> series);

// The chance that a walk without drift rises so far. The numbers are minima of windows.
double walk_p(std::span<const int64_t> series);

// The larger of the two; if that is 0.5 or more, any number from 0.5 on.
double growth_p(std::span<const int64_t> series);

struct Slope {
  double estimate = 0;       // in units of the series for a unit of time
  double low = 0, high = 0;  // of the interval that contains it in 95 of 100 cases
};
// `times` are as many, rising.
Slope theil_sen(std::span<const double> times, std::span<const int64_t> series);

// An upper bound on the longest stretch of numbers of which none is below all later ones: it has
// not grown for so long.
std::size_t longest_standstill(std::span<const int64_t> series);

// Does it grow all the time? It never stands still for a quarter of the time, and the later half
// rises at least half as fast as the earlier one.
bool keeps_growing(std::span<const int64_t> series);

// Holm's correction (Holm, "A simple sequentially rejective multiple test procedure", Scand. J.
// Statist. 6, 1979) of the chances `p` of several tests. With the corrected values, the chance that
// any of those below a bound is there by accident is the bound.
std::vector<double> holm(std::span<const double> p);
