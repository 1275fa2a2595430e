#include "trend.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace {

// The chance of a normal deviate of at least z.
double tail(double z) {
  return 0.5 * std::erfc(z / std::sqrt(2.0));
}

// The chance that Student's t, with `freedom` degrees of freedom, is at least the square root of
// `t_squared` (Wallace, "Bounds on normal approximations to Student's and the chi-square
// distributions", Ann. Math. Statist. 30, 1959).
double student_tail(double t_squared, double freedom) {
  return tail((8 * freedom + 1) / (8 * freedom + 3) *
              std::sqrt(freedom * std::log1p(t_squared / freedom)));
}

// The variance of Mann and Kendall's statistic (the number of rising pairs minus the number of
// falling pairs), corrected for ties.
double variance(std::span<const int64_t> series) {
  const auto term = [](double n) { return n * (n - 1) * (2 * n + 5) / 18; };
  std::vector<int64_t> sorted(series.begin(), series.end());
  std::sort(sorted.begin(), sorted.end());
  double sum = term(static_cast<double>(sorted.size()));
  for (auto tie = sorted.begin(); tie != sorted.end();) {
    const auto end = std::upper_bound(tie, sorted.end(), *tie);
    sum -= term(static_cast<double>(end - tie));
    tie = end;
  }
  return sum;
}

// The value with rank `rank` in ascending order; 0 is the rank of the least value. If `rank` is out
// of range, returns the least or the greatest value.
double ranked(std::vector<double>& values, double rank) {
  const double last = static_cast<double>(values.size() - 1);
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(std::clamp(rank, 0.0, last));
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

}  // namespace

double mann_kendall_p(std::span<const int64_t> series) {
  if (series.size() < 3) return 1;
  double rising = 0;
  for (std::size_t i = 1; i < series.size(); i++)
    for (std::size_t j = 0; j < i; j++) rising += (series[i] > series[j]) - (series[i] < series[j]);
  const double spread = variance(series);
  if (rising <= 0 || spread <= 0) return 1;
  return tail((rising - 1) / std::sqrt(spread));
}

double walk_p(std::span<const int64_t> series) {
  if (series.size() < 3 || series.back() <= series.front()) return 1;
  // If a walk is low where two windows meet, both windows have their minima near this point. So
  // steps from minimum to minimum vary less than independent steps would. In simulated walks, with
  // 5 or 20 samples in a window, their variance was smaller by a factor of 1.33 to 1.39. kAlong
  // corrects the variance.
  constexpr double kAlong = 1.4;
  const double steps = static_cast<double>(series.size() - 1);
  const double mean = static_cast<double>(series.back() - series.front()) / steps;
  double squares = 0, moves = 0;
  for (std::size_t i = 1; i < series.size(); i++) {
    const double step = static_cast<double>(series[i] - series[i - 1]);
    squares += (step - mean) * (step - mean);
    moves += step != 0;
  }
  const double t_squared = mean * mean * steps * (steps - 1) / (kAlong * squares);
  return std::max(student_tail(t_squared, steps - 1), std::exp2(-moves));
}

double growth_p(std::span<const int64_t> series) {
  constexpr double kEnough = 0.5;
  const double p = walk_p(series);
  return p >= kEnough ? p : std::max(p, mann_kendall_p(series));
}

Slope theil_sen(std::span<const double> times, std::span<const int64_t> series) {
  if (series.size() < 2) return {};
  std::vector<double> slopes;
  slopes.reserve(series.size() * (series.size() - 1) / 2);
  for (std::size_t i = 1; i < series.size(); i++)
    for (std::size_t j = 0; j < i; j++)
      slopes.push_back(static_cast<double>(series[i] - series[j]) / (times[i] - times[j]));
  constexpr double k95 = 1.96;
  const double count = static_cast<double>(slopes.size());
  const double reach = k95 * std::sqrt(variance(series));
  const double below = ranked(slopes, std::floor((count - 1) / 2));
  const double above = ranked(slopes, std::ceil((count - 1) / 2));
  return {.estimate = (below + above) / 2,
          .low = ranked(slopes, std::floor((count - reach) / 2) - 1),
          .high = ranked(slopes, std::ceil((count + reach) / 2))};
}

std::size_t longest_standstill(std::span<const int64_t> series) {
  if (series.empty()) return 0;
  std::size_t longest = 1, run = 1;
  int64_t floor = series.back();  // the least of the later values
  for (std::size_t i = series.size() - 1; i-- > 0;) {
    run = series[i] < floor ? 1 : run + 1;
    floor = std::min(floor, series[i]);
    longest = std::max(longest, run);
  }
  return longest;
}

bool keeps_growing(std::span<const int64_t> series) {
  if (longest_standstill(series) > series.size() / 4) return false;
  std::vector<double> times(series.size());
  std::iota(times.begin(), times.end(), 0);
  const std::size_t half = series.size() / 2;
  const auto slope = [&](std::size_t first, std::size_t count) {
    return theil_sen(std::span(times).subspan(first, count), series.subspan(first, count)).estimate;
  };
  const double earlier = slope(0, half), later = slope(series.size() - half, half);
  return later > 0 && 2 * later >= earlier;
}

std::vector<double> holm(std::span<const double> p) {
  std::vector<std::size_t> order(p.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return p[a] < p[b]; });
  std::vector<double> corrected(p.size());
  double least = 0;
  for (std::size_t i = 0; i < order.size(); i++) {
    least = std::max(least, std::min(1.0, static_cast<double>(p.size() - i) * p[order[i]]));
    corrected[order[i]] = least;
  }
  return corrected;
}
