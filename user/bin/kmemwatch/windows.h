// The minima of windows of a series, of all lengths from seconds to hours, in memory that does not
// grow.
//
// The live objects of a cache under load are leaked objects and objects in use. The minimum of a
// window of samples is near the number of the former: the longer the window, the less remains of
// the latter. Windows of level 0 are the shortest; one of level L is 2^L of these. The last
// kWindows minima of each level are kept. So growth that begins after a quiet week is seen in the
// last minutes, and growth by one object in an hour in the last weeks.
//
// Windows of all series end at the same moments: the number of a window determines the levels at
// which one ends with it. A series that begins later, with its cache, has a shorter first window.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

class Windows {
 public:
  static constexpr std::size_t kLevels = 12;  // with windows of 20 s the last level has a month
  static constexpr std::size_t kWindows = 64;

  // Does window number `window` of level 0, from 0 on, end one of `level`?
  static bool ends(uint64_t window, std::size_t level) {
    return (window + 1) % (1ul << level) == 0;
  }

  // The minimum of window number `window` of level 0. Windows are added in order.
  void add(uint64_t window, int64_t minimum) {
    for (std::size_t level = 0; level < kLevels; level++) {
      Level& to = levels_[level];
      to.current = std::min(to.current, minimum);
      if (!ends(window, level)) continue;
      to.minima[to.count++ % kWindows] = to.current;
      to.current = kNone;
    }
  }

  // The minima of the last windows of a level, oldest first; kWindows at most.
  std::vector<int64_t> minima(std::size_t level) const {
    const Level& of = levels_[level];
    std::vector<int64_t> result;
    result.reserve(kWindows);
    for (uint64_t i = of.count - std::min<uint64_t>(of.count, kWindows); i < of.count; i++)
      result.push_back(of.minima[i % kWindows]);
    return result;
  }

 private:
  static constexpr int64_t kNone = std::numeric_limits<int64_t>::max();
  struct Level {
    std::array<int64_t, kWindows> minima{};
    uint64_t count = 0;
    int64_t current = kNone;  // of the window that has not ended
  };
  std::array<Level, kLevels> levels_{};
};
