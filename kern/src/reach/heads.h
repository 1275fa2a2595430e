// Finds the heads among unreached objects: those that hold the others.
//
// A head is an object that no other unreached object leads to. In a circle that nothing outside
// leads to, one member is its head. So there is one head for each strongly connected component
// without incoming edges, and every other object is reached from a head.
//
// Two rounds find them. The first round goes through all objects in order. An object that has not
// been seen yet becomes a candidate, and everything reachable from it is seen. So no earlier
// candidate leads to a later one. The second round takes the candidates in reverse order. A
// candidate that no later candidate leads to is a head. Proof: suppose that an object X outside of
// its circle led to it. X was first seen from some candidate, which then leads here too, so it is a
// later one; the second round has taken that one before. (The argument is that of Kosaraju's
// algorithm, with whole searches in place of finishing times: Sharir, "A strong-connectivity
// algorithm and its applications in data flow analysis", 1981.)
//
// An object that two heads lead to is counted for the first of them.
#pragma once

#include "reach/mark.h"

namespace reach {

// Calls report.head(object) for each head, followed by report.keeps(object) for each object that is
// reached from it and from no earlier head. Objects that roots reach are marked kReached by the
// caller.
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
