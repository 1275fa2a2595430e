// Stores a series of samples as the minima of windows of time. The windows have lengths from
// seconds to hours. The memory for the minima does not grow.
//
// The live objects of a cache under load are leaked objects and objects in use. The minimum of a
// window of samples is near the number of leaked objects: the longer the window, the fewer objects
// in use it contains. Windows of level 0 are the shortest; a window of level L is 2^L windows of
// level 0. The last kWindows minima of each level are stored. So growth that begins after a quiet
// week is seen in the short windows of the last minutes, and growth by one object in an hour in the
// long windows of the last weeks.
//
// Windows of all series end at the same moments: the number of a window of level 0 determines the
// levels at which a window ends with it. If a cache is created later than others, only its first
// windows are shorter.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

class Windows {
 public:
  static constexpr std::size_t kLevels = 12;  // with windows of 20 s the last level covers a month
  static constexpr std::size_t kWindows = 64;

  // True if a window of `level` ends with window number `window` of level 0, counted from 0.
  static bool ends(uint64_t window, std::size_t level) {
    return (window + 1) % (1ul << level) == 0;
  }

  // Adds the minimum of window number `window` of level 0. Windows are added in order.
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
    int64_t current = kNone;  // minimum of the window that has not ended; kNone: no sample yet
  };
  std::array<Level, kLevels> levels_{};
};
