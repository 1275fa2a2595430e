// The order among objects that are not reached: which of them hold the others.
//
// A head is an object that none of the others leads to. Where they lead to each other in a circle,
// and nothing else leads there, one of the circle is its head. So heads are one object of each
// strongly connected component that has no way in, and all others are reached from a head.
//
// Two rounds find them. In the first every object that has not been seen yet is a candidate, and
// all that it leads to is seen. A later candidate is led to by no earlier one. In the second round
// the candidates come in reverse order, and one that no later candidate leads to is a head: if
// anything outside of its circle led to it, that thing was first seen from a candidate that leads
// here too, so from a later one, which has been taken before. (The argument is that of Kosaraju's
// algorithm, with whole searches in place of finishing times: Sharir, "A strong-connectivity
// algorithm and its applications in data flow analysis", 1981.)
//
// What two heads lead to is counted for the one that comes first.
#pragma once

#include "reach/mark.h"

namespace reach {

// Calls report.head(object) for each head, and after each report.keeps(object) for what is reached
// from it and from no head before. All that can be reached from roots is marked as such.
template <typename Space, typename Report>
void find_heads(const Index& index, Space& space, std::span<Entry> stack, Report& report) {
  constexpr uint8_t kUnreached = kLive | kReached;
  {
    Marker<Space, kUnreached | kSeen, kLive, kSeen, Nothing> marker(index, space, stack, {});
    index.for_each(kUnreached, kLive, [&](const Object& object) {
      if (!marker.mark(object)) return;
      object.state() |= kCandidate;
      marker.finish();
    });
  }
  index.for_each(kUnreached, kLive,
                 [&](const Object& object) { object.state() &= static_cast<uint8_t>(~kWalked); });
  bool is_head = false;
  const auto on_mark = [&](const Object& object) {
    if (is_head) {
      report.head(object);
    } else {
      report.keeps(object);
    }
    is_head = false;
  };
  Marker<Space, kUnreached | kKept, kLive, kKept, decltype(on_mark)> marker(index, space, stack,
                                                                            on_mark);
  index.for_each_backwards(kUnreached | kCandidate, kLive | kCandidate, [&](const Object& object) {
    is_head = true;
    marker.mark(object);
    is_head = false;
    marker.finish();
  });
}

}  // namespace reach
