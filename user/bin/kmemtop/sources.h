// The history of each cache, arena and kind of references: the last counts, those at the start, and
// the live objects of the last refreshes.
//
// Memory depends on the number of sources, not on the run time: each has a ring of kLength numbers.
// A source that disappears keeps its line for kGoneShown refreshes, marked as gone, and is then
// forgotten. A source that reappears under its name, or has counted fewer allocations than before,
// is a different one, and starts anew.
//
// This is pure arithmetic on its arguments, for tests on the host.
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

// The live objects of the last refreshes.
class History {
 public:
  static constexpr std::size_t kLength = 64;

  void add(int64_t value) { values_[count_++ % kLength] = value; }
  // The last `most`, or as many as there are, oldest first.
  std::vector<int64_t> last(std::size_t most) const;

 private:
  std::array<int64_t, kLength> values_{};
  uint64_t count_ = 0;
};

struct Source {
  KmemstatLine now;
  int64_t at_start = 0;  // live objects; 0 for a source that came later
  double rate = 0;       // growth in live objects a second, at the last refresh
  unsigned gone = 0;     // refreshes that it was missing in; 0: it is there
  History history;

  int64_t live() const { return static_cast<int64_t>(now.live); }
  int64_t change() const { return live() - at_start; }
  char type() const { return now.is_arena ? 'A' : now.is_references ? 'R' : 'S'; }
};

enum class Which { kTraceable, kAll };
enum class SortKey { kName, kLive, kBytes, kRate, kChange };
enum class SortOrder {
  kUsual,
  kReversed
};  // default order: names from A on, numbers from the largest

// "name", "live", "bytes", "rate", "change".
std::string_view name_of(SortKey key);
std::optional<SortKey> sort_key(std::string_view name);

class Sources {
 public:
  static constexpr unsigned kGoneShown = 3;  // refreshes

  // The counts as they are `seconds` after the start; each call has a later time.
  void refresh(double seconds, const std::vector<KmemstatLine>& lines);

  // Presets the state of the trace of `name`, until the next refresh reads it.
  void set_trace(const std::string& name, std::string_view state);

  // Sources whose names contain `filter`, all or only those that can be traced, sorted. Of equal
  // ones the faster growing comes first, then the larger one, then by name. Valid until the next
  // refresh.
  std::vector<const Source*> sorted(SortKey key, SortOrder order, Which which,
                                    std::string_view filter) const;
  // nullptr if there is none of this name.
  const Source* find(const std::string& name) const;

  std::size_t count() const;         // of those that are there
  std::size_t traced() const;        // of them, whose trace runs
  std::size_t longest_name() const;  // characters

 private:
  std::map<std::string, Source> sources_;  // by name
  std::optional<double> last_;             // seconds
};
