// The ranges of words that Reached (reached.h) scans, each with its owner: an object, static data
// or a stack. The search for the holders of an object (holders.h) and the search for references
// (references.cc) go through these ranges.
//
// The ranges are the roots, which the caller supplies, and the contents of all live objects that
// are not opaque. The search makes page tables opaque. So the entries of page tables are skipped if
// Reached has run before. Like index.h, this file does not depend on the kernel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "reach/index.h"

namespace reach {

// The memory that a range lies in.
struct RangeOwner {
  enum class Kind : uint8_t { kObject, kStatic, kStack };

  Kind kind;
  Object object;      // kObject
  uint64_t task = 0;  // kStack: address of the task whose kernel stack this is; 0: not a task's

  static RangeOwner of_object(const Object& object) { return {Kind::kObject, object}; }
  static RangeOwner of_static() { return {Kind::kStatic, {}}; }
  static RangeOwner of_stack(uint64_t task) { return {Kind::kStack, {}, task}; }
};

// Calls visit(owner, address, words) for each range; `address` is the address of the first word,
// `words` is the content, read through space.at() (reached.h). Roots come first. The caller
// supplies a function roots(root), which calls root(owner, from, to) for each range of root words;
// `from` and `to` are multiples of eight.
template <typename Space, typename Roots, typename Visit>
void for_each_range(const Index& index, Space& space, Roots roots, Visit visit) {
  const auto show = [&](const RangeOwner& place, uint64_t from, uint64_t to) {
    if (from >= to) return;
    const size_t count = (to - from) / sizeof(uint64_t);
    visit(place, from, std::span<const uint64_t>(space.at(from), count));
  };
  roots(show);
  index.for_each(kLive | kOpaque, kLive, [&](const Object& object) {
    show(RangeOwner::of_object(object), object.address(), object.address() + object.run->searched);
  });
}

}  // namespace reach
