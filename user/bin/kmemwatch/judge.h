// Finds the *sources* (caches and arenas) that grow. Judges samples of the live objects of all
// sources, for as long as samples come.
//
// Samples are grouped into windows of time. There are windows of several lengths; a *level* is one
// of these lengths (windows.h). A *look* tests the minima of the last windows of one level for
// growth (trend.h). A level has a look after its first kFewest windows, and then after every
// kStride windows. A look finds that a source grows if the test shows growth and the growth is not
// about to end (keeps_growing). A source counts as growing as long as at least one level has this
// finding. A later look of the level withdraws the finding in two cases. Either the growth has
// stopped or has become much slower (keeps_growing), or the test no longer shows growth. A new
// finding needs a test result that was corrected as described below. An uncorrected result is
// enough to keep the finding.
//
// A test has a result p, the chance that a growth is an accident. Each look tests many sources, and
// there are many looks, so some results are small by accident. Therefore p is corrected, first for
// the number of sources of the look (Holm), then for the number of looks. All looks together have
// an error budget, `alpha`. Look number J of level L gets the share 1 / (2^(L+1) J (J+1)) of the
// budget. The shares never add up to more than 1, however long the run is (spending of alpha: Lan
// and DeMets, "Discrete sequential boundaries for clinical trials", Biometrika 70, 1983).
//
// So the chance that kmemwatch ever accuses a source whose count only varies or wanders is at most
// `alpha`, in an hour or in a year. The price is small: after a week, kmemwatch needs about ten
// more windows to find a leak than on the first day.
//
// Limits: a cache that fills up at a constant rate for longer than kFewest windows is accused until
// the cache is full. A cache that is emptied less often than once in kFewest windows is accused,
// too. A count that is a random walk from 0 and cannot go below 0 is accused with a chance of up to
// twice `alpha`.
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

// The live objects of a source at one moment.
struct Live {
  std::string name;
  int64_t objects = 0, bytes = 0;
};

// The result of the looks at a source.
struct Growth {
  std::string name;
  int64_t objects = 0;                     // live in the last sample
  Slope objects_a_second, bytes_a_second;  // slopes at the level that shows growth best
  double p = 1;      // chance that the growth is an accident, corrected for all sources and looks
  double alone = 1;  // the same chance without the corrections
  bool grows = false;
  double since = 0;  // the `seconds` of the add() that last made `grows` true; 0: none
};

class Judge {
 public:
  static constexpr std::size_t kFewest = 24, kStride = 3;

  // Windows of level 0 have `window` seconds; `alpha` is the error budget of all looks.
  Judge(double window, double alpha) : window_(window), alpha_(alpha) {}

  // Adds a sample of the live objects. `seconds` is the time of the sample, and must rise from call
  // to call. The samples may have different sources. Returns true if the sample led to a look.
  bool add(double seconds, const std::vector<Live>& sample);

  // Looks of level 0 so far.
  std::size_t looks() const { return windows_ < kFewest ? 0 : (windows_ - kFewest) / kStride + 1; }

  // The names of the sources that grow.
  std::set<std::string> growing() const;

  // All sources of the last sample, the most certain growth first.
  std::vector<Growth> ranked() const;

 private:
  // The result for one level of a source at its last look.
  struct Verdict {
    double p = 1, alone = 1;
    bool grows = false;
  };
  struct Source {
    Windows objects, bytes;
    int64_t low_objects = 0, low_bytes = 0;  // the minima of the window that has not ended
    bool in_window = false;                  // true if a sample of this window has the source
    int64_t last_objects = 0;
    uint64_t seen = 0;  // the number of the last sample that has the source
    std::array<Verdict, Windows::kLevels> verdicts;
    double since = 0;
    double best_p = 1;  // the least p since the source began to grow
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
  Windows starts_;  // start times of windows, in microseconds
  std::map<std::string, Source> sources_;
};
