// The history of each source. A source is a cache, an arena or a class of references. The history
// has the last counts of the source, its live objects at the start, and its live objects at the
// last refreshes.
//
// Memory depends on the number of sources, not on the run time: each source has a ring of kLength
// numbers. A source that disappears keeps its line for kGoneShown refreshes, marked as gone, and is
// then forgotten. If a source reappears under the same name, or has fewer allocations or another
// object size than before, it counts as a different source with an empty history.
//
// The code makes no system calls, so tests on the host can compile it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tool/kmemstat.h"

// The numbers of live objects of a source at the last kLength refreshes.
class History {
 public:
  static constexpr std::size_t kLength = 64;

  void add(int64_t value) { values_[count_++ % kLength] = value; }
  // The last `most` numbers, or all if there are fewer; oldest first.
  std::vector<int64_t> last(std::size_t most) const;

 private:
  std::array<int64_t, kLength> values_{};
  uint64_t count_ = 0;
};

struct Source {
  KmemstatLine now;
  int64_t at_start = 0;  // live objects when kmemtop started; 0 if the source is newer
  double rate = 0;       // growth per second between the last two refreshes
  unsigned gone = 0;     // refreshes since the source disappeared; 0: it exists
  History history;

  int64_t live() const { return static_cast<int64_t>(now.live); }
  int64_t change() const { return live() - at_start; }
  char type() const { return now.is_arena ? 'A' : now.is_references ? 'R' : 'S'; }
};

enum class Which { kTraceable, kAll };
enum class SortKey { kName, kLive, kBytes, kRate, kChange };
enum class SortOrder {
  kUsual,  // names alphabetically, numbers from the largest to the smallest
  kReversed
};

// Converts keys to and from their names: "name", "live", "bytes", "rate", "change".
std::string_view name_of(SortKey key);
std::optional<SortKey> sort_key(std::string_view name);

class Sources {
 public:
  static constexpr unsigned kGoneShown = 3;  // refreshes

  // Takes the counts that were read `seconds` seconds after the start. The time must rise from call
  // to call.
  void refresh(double seconds, const std::vector<KmemstatLine>& lines);

  // Sets the trace state of the source `name`. The next refresh replaces this state by the state
  // that the kernel reports.
  void set_trace(const std::string& name, std::string_view state);

  // Returns the sources whose names contain `filter`, sorted. `which` selects all of them, or only
  // those that can be traced. Sources with equal keys are sorted by rate, then bytes, then live
  // objects, then name. The pointers are valid until the next refresh.
  std::vector<const Source*> sorted(SortKey key, SortOrder order, Which which,
                                    std::string_view filter) const;
  // nullptr if no source has this name.
  const Source* find(const std::string& name) const;

  std::size_t count() const;         // sources that exist
  std::size_t traced() const;        // sources whose trace runs
  std::size_t longest_name() const;  // characters

 private:
  std::map<std::string, Source> sources_;  // sources by name
  std::optional<double> last_;             // time of the last refresh: seconds after the start
};
