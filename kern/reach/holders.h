// Finds the holders of an object: the words, in roots and in live objects, that lead to it.
//
// Words in unreachable live objects count, too. A walker or a provider of roots may report the
// object without a word; such a report also counts as a holder (Link::kWalker and Link::kOwner in
// paths.h). This file does not depend on the kernel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "reach/index.h"
#include "reach/paths.h"
#include "reach/ranges.h"

namespace reach {

// Calls visit(link) for each holder, roots first. The caller first shows all roots: it calls
// word_at(), words(), word() and add(), as it would call these functions of a Reached (reached.h).
// Then the caller calls finish(). A walker that leads to the object more than once is counted once.
template <typename Space, typename Visit>
class Holders {
 public:
  // `target` need not be live: code that holds a free object's address may use the object by
  // mistake.
  Holders(const Index& index, Space& space, const Object& target, Visit visit)
      : index_(index),
        space_(space),
        target_(target.address()),
        size_(target.size()),
        visit_(visit) {}

  // Takes a root word at `address`, or a word that a walker shows.
  void word_at(uint64_t address, uint64_t word) {
    if (is_target(word)) found(Link(Link::kRoot, address));
  }
  void words(const uint64_t* from, const uint64_t* end, uint64_t address) {
    for (; from != end; from++, address += sizeof(uint64_t)) word_at(address, *from);
  }
  void words(const uint64_t* from, const uint64_t* end) {
    words(from, end, reinterpret_cast<uint64_t>(from));
  }
  void word(uint64_t word) {
    if (is_target(word)) found(Link(Link::kOwner, 0));
  }
  bool add(const Object& object) {
    word(object.address());
    return true;
  }
  const Index& index() const { return index_; }

  // Searches all live objects that are not opaque (kOpaque).
  void finish() {
    const auto no_roots = [](const auto&) {};
    for_each_range(index_, space_, no_roots,
                   [&](const RangeOwner&, uint64_t address, std::span<const uint64_t> words) {
                     for (const uint64_t& word : words) {
                       if (is_target(word)) visit_(Link(Link::kWord, address));
                       address += sizeof(word);
                     }
                   });
    index_.for_each(kLive | kOpaque, kLive, [&](const Object& object) {
      if (!object.run->walks) return;
      walking_ = true;
      walked_to_ = false;
      space_.walk(*object.run, object.address(), *this);
      walking_ = false;
      if (walked_to_) visit_(Link(Link::kWalker, object.address()));
    });
  }

 private:
  bool is_target(uint64_t word) const { return word - target_ < size_; }
  void found(Link by) {
    if (walking_) {
      walked_to_ = true;
    } else {
      visit_(by);
    }
  }

  const Index& index_;
  Space& space_;
  const uint64_t target_, size_;  // address of the target, and its size in bytes
  Visit visit_;
  // `walking_`: a walker runs. `walked_to_`: this walker has led to the object.
  bool walking_ = false, walked_to_ = false;
};

}  // namespace reach
