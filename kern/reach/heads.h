// Finds the heads among unreached objects, from which all other unreached objects can be reached.
//
// A head is an unreached object that no other unreached object leads to. If objects lead to each
// other in a circle, and no object outside of the circle leads to them, one of them is the head. So
// there is one head for each strongly connected component without incoming edges, and every other
// unreached object can be reached from a head.
//
// Two rounds find the heads. The first round goes through all unreached objects in order. An object
// that has not been seen yet becomes a candidate, and everything reachable from the candidate is
// noted as seen. So no earlier candidate leads to a later one. The second round takes the
// candidates in reverse order. A candidate C that no later candidate leads to is a head. Proof:
// suppose that an object X outside of C's component leads to C. X was first seen from some
// candidate D, so D leads to C, too. So D is not earlier than C; and D is not C, since C does not
// lead to X. So D is a later candidate that leads to C, which is a contradiction. (The argument is
// that of Kosaraju's algorithm, with whole searches in place of finishing times: Sharir, "A
// strong-connectivity algorithm and its applications in data flow analysis", 1981.)
//
// An object that several heads lead to is counted for the head that is found first.
#pragma once

#include "reach/reached.h"

namespace reach {

// Calls report.head(object) for each head, followed by report.keeps(object) for each object that
// can be reached from this head and from no earlier head. The caller has noted the objects that
// can be reached from roots as kReached.
template <typename Space, typename Report>
void find_heads(const Index& index, Space& space, std::span<Entry> stack, Report& report) {
  constexpr uint8_t kUnreached = kLive | kReached;
  {
    Reached<Space, kUnreached | kSeen, kLive, kSeen, Nothing> reached(index, space, stack, {});
    index.for_each(kUnreached, kLive, [&](const Object& object) {
      if (!reached.add(object)) return;
      object.state() |= kCandidate;
      reached.finish();
    });
  }
  // A reached table may be walked for the first time here: a stale word leads to it, but the only
  // pointer to the rest of its space is in an unreached object.
  index.forget_walks();
  bool is_head = false;
  const auto on_add = [&](const Object& object) {
    if (is_head) {
      report.head(object);
    } else {
      report.keeps(object);
    }
    is_head = false;
  };
  Reached<Space, kUnreached | kKept, kLive, kKept, decltype(on_add)> reached(index, space, stack,
                                                                             on_add);
  index.for_each_backwards(kUnreached | kCandidate, kLive | kCandidate, [&](const Object& object) {
    is_head = true;
    reached.add(object);
    is_head = false;
    reached.finish();
  });
}

}  // namespace reach
