// Why an object is alive: the shortest path to it from a root.
//
// The search is breadth first, from all roots at once, so each object is first found over as few
// others as possible (Moore, "The shortest path through a maze", 1959). Each object gets a link:
// the word that it was first found by. Following links backwards gives the path. Pointers, followed
// contents and walkers are those of mark.h; a path never leads through an object that is kOpaque.
//
// The caller shows roots before finish(), by the same calls as to a Marker. Among paths of equal
// length, the root that was shown first wins.
//
// The caller supplies the memory: two links for each object of the index, live or not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "reach/index.h"

namespace reach {

// The predecessor of an object on a path.
class Link {
 public:
  enum Kind : uint8_t {
    kNone,    // not found yet
    kRoot,    // a root word, at address()
    kOwner,   // a root without a word: its owner reports the object (ReachVisitor::object and page)
    kWord,    // a word of another object, at address()
    kWalker,  // reported by the walker of the object at address()
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

// Space is as in mark.h. The search changes no state of objects but kWalked, which walkers set.
// Clear it between two searches over one index.
template <typename Space>
class Paths {
 public:
  // `memory` need not be initialised.
  Paths(const Index& index, Space& space, std::span<Link> memory) : index_(index), space_(space) {
    const size_t objects = index.complete() ? index.object_count() : 0;
    complete_ = index.complete() && memory.size() >= memory_for(index);
    if (!complete_) return;
    links_ = memory.first(objects);
    queue_ = memory.subspan(objects, objects);
    for (Link& link : links_) link = {};
  }
  // Returns the number of links needed.
  static size_t memory_for(const Index& index) { return 2 * size_t{index.object_count()}; }
  // False if the index is incomplete or the memory too small. Then nothing is found.
  bool complete() const { return complete_; }

  // Takes a word at `address`: a root, or shown by a walker.
  void word_at(uint64_t address, uint64_t word) {
    if (const Object object = index_.find(word)) reach(object, from(Link::kRoot, address));
  }
  // Takes the words from `from` up to `end`, which stand at `address`.
  void words(const uint64_t* from, const uint64_t* end, uint64_t address) {
    for (; from != end; from++, address += sizeof(uint64_t)) word_at(address, *from);
  }
  // The same for this program's own memory.
  void words(const uint64_t* from, const uint64_t* end) {
    words(from, end, reinterpret_cast<uint64_t>(from));
  }
  // Takes a word whose address only its owner knows.
  void word(uint64_t word) {
    if (const Object object = index_.find(word)) mark(object);
  }
  bool mark(const Object& object) { return reach(object, from(Link::kOwner, 0)); }
  const Index& index() const { return index_; }

  // Follows everything that has been shown. Time in proportion to what can be reached.
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

  // Returns the links of a shortest path, after finish(): the first is a root, the last leads to
  // `object`. Empty if the object cannot be reached. Valid until the next call.
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
  // True if this call found the object.
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
  std::span<Link> links_;  // by object number
  std::span<Link> queue_;  // addresses of objects, each once; then a path
  size_t head_ = 0, tail_ = 0;
  Link walking_;  // set while a walker runs
};

}  // namespace reach
