// The shortest path from a root to an object, which explains why the object is reached.
//
// The search is breadth first, from all roots at once, so each object is first found through as few
// other objects as possible (Moore, "The shortest path through a maze", 1959). Each object gets a
// link: the word by which it was first found. Following links backwards gives the path. The rules
// of reached.h decide which words are pointers. Space::walk() (reached.h) follows contents that
// refer to objects but are not addresses. A path never leads through an object that is kOpaque.
//
// The caller first shows all roots: it calls word_at(), words(), word() and add(), as it would
// call these functions of a Reached (reached.h). Then the caller calls finish(). Among paths of
// equal length, the path from the root that was shown first wins.
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
    kRoot,    // found by a root word at address()
    kOwner,   // a provider of roots reported the object itself (ReachVisitor::object, page)
    kWord,    // found by a word of another object, at address()
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

// Space is as in reached.h. The search itself changes no state bits of objects. Walkers set kWalked
// and kOpaque for page tables. The caller clears kWalked before another search over the same index.
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
  // False if the index is incomplete or the memory too small. In this case nothing is found.
  bool complete() const { return complete_; }

  // Takes a root word at `address`, or a word that a walker shows.
  void word_at(uint64_t address, uint64_t word) {
    if (const Object object = index_.find(word)) reach(object, from(Link::kRoot, address));
  }
  // Takes the words from `from` up to `end`. In the memory that is searched, they lie at `address`.
  void words(const uint64_t* from, const uint64_t* end, uint64_t address) {
    for (; from != end; from++, address += sizeof(uint64_t)) word_at(address, *from);
  }
  // Takes the words from `from` up to `end`. In the memory that is searched, they lie at the same
  // addresses.
  void words(const uint64_t* from, const uint64_t* end) {
    words(from, end, reinterpret_cast<uint64_t>(from));
  }
  // Takes a word whose own address is not known.
  void word(uint64_t word) {
    if (const Object object = index_.find(word)) add(object);
  }
  bool add(const Object& object) { return reach(object, from(Link::kOwner, 0)); }
  const Index& index() const { return index_; }

  // Follows all words that have been shown. The time is proportional to the reachable memory.
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
      for (uint64_t offset = 0; offset + sizeof(uint64_t) <= object.run->searched;
           offset += sizeof(uint64_t)) {
        if (const Object found = index_.find(words[offset / sizeof(uint64_t)]))
          reach(found, Link(Link::kWord, address + offset));
      }
    }
  }

  // Called after finish(). Returns the links of a shortest path: the first link is a root, the last
  // one leads to `object`. Empty if the object cannot be reached. Valid until the next call.
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
  // If the object has not been found before, stores `by` as its link, queues it, and returns true.
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
  std::span<Link> links_;  // for each object, by Index::number_of(): its link
  // During the search: the addresses of found objects, each once. After path(): the links of the
  // path.
  std::span<Link> queue_;
  size_t head_ = 0, tail_ = 0;
  Link walking_;  // while a walker runs: the link for objects that it reports
};

}  // namespace reach
