// stele-reach runs the kernel's search for unreachable objects on the host. The class World
// connects this search to the memory of a core. World fills the search's index of live objects
// (index.h), and provides the functions with which the search (reached.h) reads memory.
//
// A text, the description, lists the objects and roots. tools/stele/debugger/memory_map.py makes it
// from the kernel's structures. (When the kernel itself searches, objects.cc and roots.cc find the
// objects and roots.) Each line has a word and hexadecimal numbers. If an object contains other
// objects, it comes before them, because index.h requires this order. A source comes before its
// runs. These are the lines:
//
//   memory DIRECT_MAP BYTES IMAGE IMAGE_END TABLES   where memory is mapped (Mappings)
//   pages ADDRESS BYTES SLAB MAPPINGS LARGE FLAG   the array of page descriptors (pages.h): its
//                                  address, the size of an element, the offsets of an element's
//                                  fields `slab`, `mappings` and `large_pages`, and the flag
//                                  kPagesOfBytes in the last field
//   source LISTED CACHE ROOT       a cache or an arena; the first source has the number 0. LISTED
//                                  is 1 if unreached objects are to be listed. CACHE is 1 for a
//                                  cache. ROOT is not 0 if each object has a root page table: the
//                                  table's physical address is in the object, at the offset ROOT
//   run START MEMORY BASE STRIDE SIZE COUNT SOURCE PAYLOAD PAGES   live objects (Index::add). The
//                                  last PAYLOAD bytes of each object are not searched. PAGES is 1
//                                  if the objects are whole pages. They are not searched if their
//                                  first page's descriptor says that they hold bytes
//   cover START                    the object that contains START stops being an object, because
//                                  inner runs lie in its memory (Index::cover)
//   dead ADDRESS…                  these objects are not live
//   hide ADDRESS…                  these objects are not searched
//   object ADDRESS…                roots: these objects
//   words FROM TO                  root: the words at these addresses
//   stack TASK FROM TO             root: the words on the stack of the task whose structure is at
//                                  TASK
//   registers ADDRESS VALUE…       root: values of registers, which are not in memory. In answers,
//                                  the first value has the address ADDRESS, the second value has
//                                  ADDRESS + 8, and so on
//   tables FROM TO                 root: the kernel's page tables for these addresses
//   mapped FROM TO                 root: the pages that are mapped at these addresses
//   target OBJECT…                 objects for the question `keepers`
//   reference OBJECT NUMBER        a traced reference (core/ref.h), for the question `references`
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "memory.h"
#include "page_tables.h"
#include "reach/index.h"
#include "reach/ranges.h"
#include "reach/reached.h"

namespace reach {

struct Source {
  bool listed, is_cache;
  uint64_t root_offset;  // offset of a page table's physical address in the objects; 0: none
};

class World {
 public:
  // A range of words that belongs to the roots.
  struct Root {
    RangeOwner place;
    uint64_t from, to;
  };

  // Throws Failure if the description does not fit the core.
  World(const std::string& core, std::string_view description);

  // Marks all that can be reached from the roots.
  void reach();
  // Gives all roots to a Reached (reached.h), or to a class with the same interface (paths.h,
  // holders.h).
  enum class Roots : uint8_t { kAll, kStacks, kAllButStacks };
  template <typename Reached>
  void show_roots(Reached& reached, Roots which = Roots::kAll);

  const Index& index() const { return *index_; }
  std::span<Entry> stack() { return stack_; }
  const Source& source(const Object& object) const { return sources_[object.run->source]; }
  // True if the object, which consists of whole pages, is a slab.
  bool is_slab(const Object& object) const { return descriptor_word(object.address(), slab_) != 0; }
  const std::vector<Root>& roots() const { return roots_; }
  // A traced reference: its number, and the address of the object that it refers to.
  struct Reference {
    uint64_t number, object;
  };
  // Returns the reference of this number; nullptr if there is none.
  const Reference* reference(uint64_t number) const;

  // True if an object of the description's lines `target` begins at the address.
  bool is_target(uint64_t address) const { return targets_.contains(address); }

  // True if the address is in a root that is a stack, but not a register.
  bool is_on_stack(uint64_t address) const;

  // The functions that reached.h requires of a Space. `address` is in a root or in an object.
  const uint64_t* at(uint64_t address) const;
  template <typename Reached>
  void walk(const Run& run, uint64_t address, Reached& reached);

 private:
  class Reader;
  template <typename Reached>
  class Visitor;

  // The word at `offset` in the descriptor of the page frame at `address`; 0 if there is none.
  uint64_t descriptor_word(uint64_t address, uint64_t offset) const;
  bool is_programs(uint64_t address) const {
    return static_cast<uint32_t>(descriptor_word(address, mappings_)) != 0;
  }
  // True if the descriptor says that the pages from `address` on hold bytes, not pointers.
  bool holds_bytes(uint64_t address) const {
    const uint64_t large = descriptor_word(address, large_ / 8 * 8) >> large_ % 8 * 8;
    return is_programs(address) || (large & bytes_flag_) != 0;
  }
  Object find_page(uint64_t physical) const { return index_->find(memory_->base() + physical); }

  std::unique_ptr<Memory> memory_;
  uint64_t descriptors_ = 0, descriptor_size_ = 0, slab_ = 0, mappings_ = 0, large_ = 0,
           bytes_flag_ = 0;
  std::vector<Source> sources_;
  std::vector<uint32_t> frames_;
  std::vector<Run> runs_;
  std::vector<uint8_t> states_;
  std::vector<Entry> stack_ = std::vector<Entry>(1 << 16);
  std::unique_ptr<Index> index_;

  std::vector<Root> roots_;
  // The roots of the description's lines `object`, `tables` and `mapped`.
  std::vector<uint64_t> objects_;
  std::vector<std::pair<uint64_t, uint64_t>> tables_;  // [begin, end) of the kernel's addresses
  std::vector<uint64_t> mapped_;                       // addresses of pages in the direct map
  static constexpr uint64_t kNone = ~uint64_t{0};
  uint64_t registers_at_ = kNone;
  std::vector<uint64_t> registers_;
  std::vector<Reference> references_;  // sorted by number
  std::unordered_set<uint64_t> targets_;
};

// The visitor for walks over page tables, like ReachingVisitor (kern/reach/visitor_impl.h).
template <typename Reached>
class World::Visitor {
 public:
  Visitor(World& world, Reached& reached) : world_(world), reached_(reached) {}

  void page(uint64_t physical) {
    const Object object = world_.find_page(physical);
    if (!object) return;
    object.state() |= kOpaque;
    reached_.add(object);
  }
  bool table(uint64_t physical) {
    const Object object = world_.find_page(physical);
    if (!object || object.size() != Memory::kPage || object.address() % Memory::kPage != 0)
      return false;
    uint8_t& state = object.state();
    if (!(state & kLive) || (state & kWalked) || world_.is_programs(object.address())) return false;
    state |= kWalked | kOpaque;
    reached_.add(object);
    return true;
  }

 private:
  World& world_;
  Reached& reached_;
};

template <typename Reached>
void World::show_roots(Reached& reached, Roots which) {
  for (const Root& root : roots_) {
    const bool is_stack = root.place.kind == RangeOwner::Kind::kStack;
    if (which == (is_stack ? Roots::kAllButStacks : Roots::kStacks)) continue;
    const uint64_t* word = at(root.from);
    for (uint64_t address = root.from; address < root.to; address += sizeof(*word), word++) {
      reached.word_at(address, *word);
      // On a stack, the physical address of a page counts as a pointer to the page, too.
      if (is_stack && *word % Memory::kPage == 0 && *word < memory_->size())
        reached.word_at(address, memory_->base() + *word);
    }
  }
  if (which == Roots::kStacks) return;
  Visitor<Reached> visitor(*this, reached);
  struct Tables {
    Visitor<Reached>& visitor;
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
  for (const uint64_t address : objects_) reached.word(address);
}

template <typename Reached>
void World::walk(const Run& run, uint64_t address, Reached& reached) {
  Visitor<Reached> visitor(*this, reached);
  const uint64_t root = *at(address + sources_[run.source].root_offset);
  if (root != 0) walk_tables(*memory_, root, kRootLevel, 0, kUserEntries, visitor);
}

}  // namespace reach
