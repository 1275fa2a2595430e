// Why an object is alive: the shortest path to it from a root.
//
// A search breadth first: from all roots at once, object by object in the order in which they were
// found, so that each is first found over as few others as can be (Moore, "The shortest path
// through a maze", 1959). For every object it remembers by which word it was found, its link; going
// back from link to link gives the path. What counts as a pointer, what is followed and what only a
// walker knows is as in mark.h; objects that are kOpaque end a path.
//
// Roots are shown before finish(), by the same calls that show them to a Marker: those shown first
// win among paths of one length.
//
// Its memory is brought: two links for each object of the index, live or not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "reach/index.h"

namespace reach {

// What leads to an object.
class Link {
 public:
  enum Kind : uint8_t {
    kNone,    // nothing has been found
    kRoot,    // a word that is a root, at address()
    kOwner,   // a root without a word: its owner names the object (ReachVisitor::object and page)
    kWord,    // a word of another object, at address()
    kWalker,  // what the walker says of the object at address()
  };

  Link() = default;
  // `address` is a multiple of eight.
  constexpr Link(Kind kind, uint64_t address) : value_(address | kind) {}
  Kind kind() const { return static_cast<Kind>(value_ & kKinds); }
  uint64_t address() const { return value_ & ~kKinds; }
  explicit operator bool() const { return kind() != kNone; }
  bool is_root() const { return kind() == kRoot || kind() == kOwner; }
  bool operator==(const Link&) const = default;

 private:
  static constexpr uint64_t kKinds = 7;
  uint64_t value_ = 0;
};

// A Space is what mark.h says. The states of objects are only read, apart from what a walker sets
// (kWalked): one search for each index, or those bits cleared between two.
template <typename Space>
class Paths {
 public:
  // Of `memory` the contents do not matter.
  Paths(const Index& index, Space& space, std::span<Link> memory) : index_(index), space_(space) {
    const size_t objects = index.complete() ? index.object_count() : 0;
    complete_ = index.complete() && memory.size() >= memory_for(index);
    if (!complete_) return;
    links_ = memory.first(objects);
    queue_ = memory.subspan(objects, objects);
    for (Link& link : links_) link = {};
  }
  // How many links are needed.
  static size_t memory_for(const Index& index) { return 2 * size_t{index.object_count()}; }
  // Whether the index is whole and the memory enough. If not, nothing is found.
  bool complete() const { return complete_; }

  // Roots, or what a walker shows. A word that stands at `address`:
  void word_at(uint64_t address, uint64_t word) {
    if (const Object object = index_.find(word)) reach(object, from(Link::kRoot, address));
  }
  // The words from `from` up to `end`, as they stand at `address`.
  void words(const uint64_t* from, const uint64_t* end, uint64_t address) {
    for (; from != end; from++, address += sizeof(uint64_t)) word_at(address, *from);
  }
  // Those of this program's own memory.
  void words(const uint64_t* from, const uint64_t* end) {
    words(from, end, reinterpret_cast<uint64_t>(from));
  }
  // What only its owner knows.
  void word(uint64_t word) {
    if (const Object object = index_.find(word)) mark(object);
  }
  bool mark(const Object& object) { return reach(object, from(Link::kOwner, 0)); }
  const Index& index() const { return index_; }

  // Follows all that has been shown. Time in proportion to what can be reached.
  void finish() {
    while (head_ != tail_) {
      const Object object = index_.find(queue_[head_++].address());
      if (object.state() & kOpaque) continue;
      const uint64_t address = object.address();
      if (object.run->walks) {
        walking_ = Link(Link::kWalker, address);
        space_.walk(*object.run, address, *this);
        walking_ = {};
      }
      const uint64_t* const words = space_.at(address);
      for (uint64_t offset = 0; offset + sizeof(uint64_t) <= object.size();
           offset += sizeof(uint64_t)) {
        if (const Object found = index_.find(words[offset / sizeof(uint64_t)]))
          reach(found, Link(Link::kWord, address + offset));
      }
    }
  }

  // The links of a shortest path, after finish(): the first is of a root, the last leads to
  // `object`. Empty if it cannot be reached. Valid until the next call.
  std::span<const Link> path(const Object& object) {
    if (!complete_ || !object) return {};
    size_t first = queue_.size();
    for (Link link = link_of(object); link; link = link_of(index_.find(link.address()))) {
      queue_[--first] = link;
      if (link.is_root()) break;
    }
    return std::span<const Link>(queue_).subspan(first);
  }

 private:
  Link& link_of(const Object& object) { return links_[index_.number_of(object)]; }
  Link from(Link::Kind root, uint64_t address) const {
    return walking_ ? walking_ : Link(root, address);
  }
  // True if it has been found now, and not before.
  bool reach(const Object& object, Link by) {
    if (!complete_ || !(object.state() & kLive)) return false;
    Link& link = link_of(object);
    if (link) return false;
    link = by;
    queue_[tail_++] = Link(Link::kWord, object.address());
    return true;
  }

  const Index& index_;
  Space& space_;
  bool complete_ = false;
  std::span<Link> links_;  // by number of object
  std::span<Link> queue_;  // addresses of objects, each once; then a path
  size_t head_ = 0, tail_ = 0;
  Link walking_;  // while a walker is asked
};

}  // namespace reach
