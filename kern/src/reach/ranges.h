// Ranges of words that the marking looks through, and what each lies in: for whoever wants to know
// what leads to an object, or where something is kept.
//
// They are the roots, which the caller has, and the contents of all live objects that are not
// opaque. Page tables become opaque when they are marked, so who does not want their entries marks
// first. Nothing here depends on the kernel (index.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "reach/index.h"

namespace reach {

// What a range lies in.
struct RangeOwner {
  enum class Kind : uint8_t { kObject, kStatic, kStack };

  Kind kind;
  Object object;      // kObject
  uint64_t task = 0;  // kStack: address of the task whose kernel stack it is; 0: of none

  static RangeOwner of_object(const Object& object) { return {Kind::kObject, object}; }
  static RangeOwner of_static() { return {Kind::kStatic, {}}; }
  static RangeOwner of_stack(uint64_t task) { return {Kind::kStack, {}, task}; }
};

// Calls visit(place, address, words) for each range; `address` is that of the first word, `words`
// what space.at() makes of it (mark.h). Roots come first: roots(root) calls
// root(place, from, to) for each, with addresses that are multiples of eight.
template <typename Space, typename Roots, typename Visit>
void for_each_range(const Index& index, Space& space, Roots roots, Visit visit) {
  const auto show = [&](const RangeOwner& place, uint64_t from, uint64_t to) {
    if (from >= to) return;
    const size_t count = (to - from) / sizeof(uint64_t);
    visit(place, from, std::span<const uint64_t>(space.at(from), count));
  };
  roots(show);
  index.for_each(kLive | kOpaque, kLive, [&](const Object& object) {
    show(RangeOwner::of_object(object), object.address(), object.address() + object.size());
  });
}

}  // namespace reach
