// The caches and arenas that grow: judges samples of the live objects of all of them, again and
// again, for any length of time.
//
// Samples are grouped into windows of time. The last minima of the windows of each length
// (windows.h) are tested for growth (trend.h): a *look*. A level has a look at every kStride-th of
// its windows, from kFewest on. A cache grows when the test says so and the growth is not about to
// end (keeps_growing). It goes on growing until no level shows growth any more: each level that has
// found it must have a look at which growth has stood still or fallen behind, or at which the test
// of this cache alone would not find it.
//
// Many tests are made, of many caches at each look, and look after look; some are bound to be
// wrong. So each chance p is corrected: first for all caches of a look (Holm), then for all looks.
// Look number J of level L gets the share 1 / (2^(L+1) J (J+1)) of the error budget. The shares add
// up to 1 for a run of any length (spending of alpha: Lan and DeMets, "Discrete sequential
// boundaries for clinical trials", Biometrika 70, 1983). So the chance that any cache that only
// sways or wanders is ever accused is at most `alpha`, in an hour as in a year. The price is small:
// after a week a leak must be seen for about ten windows more than on the first day.
//
// Limits: a cache that fills up for longer than kFewest windows, at a constant rate, is accused
// until it stops; so is one that is emptied less often than that. Random walks that start at
// nothing and cannot go below are accused up to twice as often as `alpha`.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "trend.h"
#include "windows.h"

// The live objects of a cache or arena at one moment.
struct Live {
  std::string name;
  int64_t objects = 0, bytes = 0;
};

// The result of the looks at a cache or arena.
struct Growth {
  std::string name;
  int64_t objects = 0;                     // live in the last sample
  Slope objects_a_second, bytes_a_second;  // at the level that shows growth best
  double p = 1;                            // the chance of an accident, over all caches and looks
  double alone = 1;                        // of the one test
  bool grows = false;
  double since = 0;  // when it was last found to grow, in the time of the samples; 0 if never
};

class Judge {
 public:
  static constexpr std::size_t kFewest = 24, kStride = 3;

  // Windows of level 0 have `window` seconds; `alpha` is the error budget, above.
  Judge(double window, double alpha) : window_(window), alpha_(alpha) {}

  // The live objects at `seconds`, which rises from call to call. Caches may come and go. True if
  // there was a look.
  bool add(double seconds, const std::vector<Live>& sample);

  // Looks of level 0 so far.
  std::size_t looks() const { return windows_ < kFewest ? 0 : (windows_ - kFewest) / kStride + 1; }

  // The names of the sources that grow.
  std::set<std::string> growing() const;

  // All current sources, the most certain growth first.
  std::vector<Growth> ranked() const;

 private:
  // Of one level of a source, at its last look.
  struct Verdict {
    double p = 1, alone = 1;
    bool grows = false;
  };
  struct Source {
    Windows objects, bytes;
    int64_t low_objects = 0, low_bytes = 0;  // the minima of the window that has not ended
    bool in_window = false;                  // a sample of that window has it
    int64_t last_objects = 0;
    uint64_t seen = 0;  // the number of the last sample that has it
    std::array<Verdict, Windows::kLevels> verdicts;
    double since = 0;
    double best_p = 1;  // while it grows
    bool grows() const;
    std::size_t surest_level() const;
  };

  void end_window();
  void look(std::size_t level, uint64_t number);

  const double window_;
  const double alpha_;
  uint64_t samples_ = 0, windows_ = 0;
  double now_ = 0;
  double window_start_ = 0, window_end_ = 0;
  Windows starts_;  // of windows, in microseconds
  std::map<std::string, Source> sources_;
};
