// The used memory of a core: the kernel's index of live objects and its marking, over memory that
// is not this program's own.
//
// A description lists objects and roots. It comes from a reader of the kernel's structures
// (tools/stele/debugger/memory_map.py), and replaces the kernel's objects.cc and roots.cc. It has a
// line for each item, a word and numbers. Objects come from the outside in, as index.h requires,
// and each line comes after those that it refers to:
//
//   memory DIRECT_MAP BYTES IMAGE IMAGE_END TABLES   where memory is mapped (Mappings)
//   pages ADDRESS BYTES SLAB MAPPINGS   the page descriptors: size of one, offsets of fields
//   source LISTED CACHE ROOT       numbered from 0 on: are its objects listed when they are not
//                                  reached, are they a cache's, and the offset in them of the
//                                  physical address of a root page table, 0 if they have none
//   run START MEMORY BASE STRIDE SIZE COUNT SOURCE PAGES   live objects (Index::add); PAGES: they
//                                  are pages; those of programs are not searched
//   cover START                    Index::cover
//   dead ADDRESS…                  they are not live
//   hide ADDRESS…                  they are not searched
//   object ADDRESS…                they are in use: roots, as are the following
//   words FROM TO
//   stack TASK FROM TO             the stack of the task whose structure has that address
//   registers ADDRESS VALUE…       words that are not in memory; the caller knows them by ADDRESS
//   tables FROM TO                 the kernel's page tables for these addresses
//   mapped FROM TO                 the pages that are mapped there
//   reference OBJECT NUMBER        a traced reference (core/ref.h) to search for
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "memory.h"
#include "page_tables.h"
#include "reach/index.h"
#include "reach/mark.h"
#include "reach/ranges.h"

namespace reach {

struct Source {
  bool listed, is_cache;
  uint64_t root_offset;  // of a page table's physical address in its objects; 0: none
};

class World {
 public:
  // A range of words that belongs to the roots.
  struct Root {
    RangeOwner place;
    uint64_t from, to;
  };

  // Failure: the description does not fit the core.
  World(const std::string& core, std::string_view description);

  // Marks all that can be reached from the roots.
  void mark();
  // Shows all roots to a Marker, or to another visitor with its interface (paths.h, holders.h).
  template <typename Marker>
  void show_roots(Marker& marker);

  const Index& index() const { return *index_; }
  std::span<Entry> stack() { return stack_; }
  const Source& source(const Object& object) const { return sources_[object.run->source]; }
  // Is an object of one or several pages a slab?
  bool is_slab(const Object& object) const { return descriptor_word(object.address(), slab_) != 0; }
  const std::vector<Root>& roots() const { return roots_; }
  // A traced reference by its number; nullptr if there is none.
  struct Reference {
    uint64_t number, object;
  };
  const Reference* reference(uint64_t number) const;

  // As a Space (mark.h): all kernel addresses that roots and objects have.
  const uint64_t* at(uint64_t address) const;
  template <typename Marker>
  void walk(const Run& run, uint64_t address, Marker& marker);

 private:
  class Reader;
  template <typename Marker>
  class Visitor;

  // The first 8 bytes at `offset` of a frame's descriptor; 0 if it has none.
  uint64_t descriptor_word(uint64_t address, uint64_t offset) const;
  bool is_programs(uint64_t address) const {
    return static_cast<uint32_t>(descriptor_word(address, mappings_)) != 0;
  }
  Object find_page(uint64_t physical) const { return index_->find(memory_->base() + physical); }

  std::unique_ptr<Memory> memory_;
  uint64_t descriptors_ = 0, descriptor_size_ = 0, slab_ = 0, mappings_ = 0;
  std::vector<Source> sources_;
  std::vector<uint32_t> frames_;
  std::vector<Run> runs_;
  std::vector<uint8_t> states_;
  std::vector<Entry> stack_ = std::vector<Entry>(1 << 16);
  std::unique_ptr<Index> index_;

  std::vector<Root> roots_;
  std::vector<uint64_t> objects_;                      // in use
  std::vector<std::pair<uint64_t, uint64_t>> tables_;  // ranges of the kernel's addresses
  std::vector<uint64_t> mapped_;                       // pages in use, by their addresses
  static constexpr uint64_t kNone = ~uint64_t{0};
  uint64_t registers_at_ = kNone;
  std::vector<uint64_t> registers_;
  std::vector<Reference> references_;  // by number
};

// The visitor of walks, like MarkingVisitor (kern/src/reach/visitor.h).
template <typename Marker>
class World::Visitor {
 public:
  Visitor(World& world, Marker& marker) : world_(world), marker_(marker) {}

  void page(uint64_t physical) {
    const Object object = world_.find_page(physical);
    if (!object) return;
    object.state() |= kOpaque;
    marker_.mark(object);
  }
  bool table(uint64_t physical) {
    const Object object = world_.find_page(physical);
    if (!object || object.size() != Memory::kPage || object.address() % Memory::kPage != 0)
      return false;
    uint8_t& state = object.state();
    if (!(state & kLive) || (state & kWalked) || world_.is_programs(object.address())) return false;
    state |= kWalked | kOpaque;
    marker_.mark(object);
    return true;
  }

 private:
  World& world_;
  Marker& marker_;
};

template <typename Marker>
void World::show_roots(Marker& marker) {
  for (const Root& root : roots_) {
    const bool is_stack = root.place.kind == RangeOwner::Kind::kStack;
    const uint64_t* word = at(root.from);
    for (uint64_t address = root.from; address < root.to; address += sizeof(*word), word++) {
      marker.word_at(address, *word);
      // On a stack, the physical address of a page too.
      if (is_stack && *word % Memory::kPage == 0 && *word < memory_->size())
        marker.word_at(address, memory_->base() + *word);
    }
  }
  Visitor<Marker> visitor(*this, marker);
  struct Tables {
    Visitor<Marker>& visitor;
    bool table(uint64_t physical) {
      visitor.page(physical);
      return true;
    }
    void page(uint64_t) {}
  } tables{visitor};
  for (const auto& [from, to] : tables_)
    walk_tables(*memory_, memory_->tables(), kRootLevel, index_at(from, kRootLevel),
                index_at(to - 1, kRootLevel) + 1, tables);
  for (const uint64_t page : mapped_) visitor.page(page - memory_->base());
  for (const uint64_t address : objects_) marker.word(address);
}

template <typename Marker>
void World::walk(const Run& run, uint64_t address, Marker& marker) {
  Visitor<Marker> visitor(*this, marker);
  const uint64_t root = *at(address + sources_[run.source].root_offset);
  if (root != 0) walk_tables(*memory_, root, kRootLevel, 0, kUserEntries, visitor);
}

}  // namespace reach
