// Stores a series of samples as the minima of windows of time. The windows have lengths from
// seconds to hours. The memory for the minima does not grow.
//
// The live objects of a cache under load are leaked objects and objects in use. In a long window,
// there is probably a moment with few objects in use. So the minimum of a window's samples is near
// the number of leaked objects, and nearer in a longer window. Windows of level 0 are the shortest;
// a window of level L consists of 2^L windows of level 0. The last kWindows minima of each level
// are stored. The short windows of the last minutes show growth that begins after a quiet week. The
// long windows of the last weeks show growth by one object in an hour.
//
// The windows of all series end at the same moments. All windows of level 0 have numbers, and the
// number tells which windows of higher levels end at the same moment. For a cache that is created
// later than others, only the first windows are shorter.
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

  // True if a window of `level` ends at the end of window number `window` of level 0. The first
  // window has number 0.
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
