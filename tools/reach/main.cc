// Answers questions that require all of a guest's memory. Usage: stele-reach CORE QUESTION…, with
// the description of memory (world.h) on standard input. tools/stele/debugger/reach.py reads the
// output and adds names, types and stacks.
//
// The answers come in the order of the questions. Each line of an answer has a word and hexadecimal
// numbers. These are the questions, each with the lines of its answer:
//
//   unreachable       Lists the unreachable objects (docs/unreachable.md).
//     live COUNT                  one line: the number of live objects
//     head ADDRESS SIZE SOURCE    for each head (heads.h)
//     keeps ADDRESS SIZE SOURCE   after a head: for each object that this head keeps
//   references        Finds the locations of the description's references.
//     place OBJECT NUMBER WHERE ADDRESS HOLDER SOURCE
//                                 for each location. OBJECT and NUMBER identify the reference.
//                                 WHERE is a value of `enum Where`. ADDRESS is the location
//   holders ADDRESS   Finds the pointers to the object at ADDRESS.
//     holders COUNT SHOWN LIVE OBJECT OBJECT SOURCE
//                                 one line: there are COUNT pointers, and SHOWN of them follow.
//                                 LIVE is 1 if the object is live, otherwise 0. OBJECT is the
//                                 object's start; the line has it twice
//     KIND ADDRESS HOLDER SOURCE  for each of SHOWN pointers: KIND is a word of kKinds. ADDRESS is
//                                 where the pointer is
//   path ADDRESS      Finds a shortest path from a root to the object at ADDRESS.
//     path COUNT                  one line: the number of pointers on the path
//     KIND ADDRESS HOLDER SOURCE  for each pointer on the path, as for `holders`
//
//   keepers           Finds what keeps the description's targets.
//     KIND OBJECT ADDRESS HOLDER SOURCE
//                                 for each object that can be reached: the last pointer of a
//                                 shortest path to the object at OBJECT; KIND as for `holders`. A
//                                 path from a stack counts only if there is no other, but a
//                                 structure on a stack to which a pointer leads is like an object
//     to TARGET WHERE ADDRESS HOLDER SOURCE
//                                 for each pointer to a target: from an object, from static memory,
//                                 or from a stack. WHERE is a value of RangeOwner::Kind
//     onto VALUE WHERE ADDRESS HOLDER SOURCE
//                                 for each pointer to VALUE, which is on a stack, from elsewhere
//
// HOLDER is the start of the object that contains ADDRESS. SOURCE is the number of this object's
// cache or arena, which the description calls a source. If no object contains ADDRESS, HOLDER and
// SOURCE are 0. In the line `holders`, SOURCE is the number of the source of OBJECT.
//
// Errors: status 2 with one line on standard error.
#include <algorithm>
#include <charconv>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <iterator>
#include <optional>
#include <unordered_set>

#include "reach/heads.h"
#include "reach/holders.h"
#include "reach/paths.h"
#include "world.h"

namespace reach {
namespace {

struct Report {
  void head(const Object& object) { print("head", object); }
  void keeps(const Object& object) { print("keeps", object); }
  static void print(const char* word, const Object& object) {
    printf("%s %" PRIx64 " %" PRIx64 " %x\n", word, object.address(), object.size(),
           object.run->source);
  }
};

// Finds and prints unreachable objects, like the kernel's reach::look() (look.cc).
void unreachable(World& world) {
  const Index& index = world.index();
  const Index::Counts counts = index.count();
  printf("live %" PRIx64 "\n", counts.live);
  index.for_each(kLive | kReached, kLive, [&](const Object& object) {
    const Source& source = world.source(object);
    if (!source.listed || (!source.is_cache && world.is_slab(object))) object.state() |= kReached;
  });
  Report report;
  find_heads(index, world, world.stack(), report);
}

// Kinds of locations, as in the kernel (references.cc). A reference consists of two words.
// kStackApart: both words are on one stack, but they are not neighbours. If a reference is found at
// two locations, the reader of the output takes the location of the higher kind, because a stack
// may have stale words.
enum Where : unsigned { kStackApart, kStack, kUnreachedObject, kInUse };

Where where_of(const World& world, const RangeOwner& place) {
  if (place.kind == RangeOwner::Kind::kStatic) return kInUse;
  if (place.kind == RangeOwner::Kind::kStack) return kStack;
  const bool is_lost = !(place.object.state() & kReached) && world.source(place.object).listed;
  return is_lost ? kUnreachedObject : kInUse;
}

// Prints `address`, the start of the object that contains it, and the object's source. If no object
// contains the address, prints 0 for the object and 0 for the source.
void print_place(const World& world, uint64_t address) {
  const Object object = world.index().find(address);
  printf("%" PRIx64 " %" PRIx64 " %x\n", address, object ? object.address() : 0,
         object ? object.run->source : 0);
}

// Searches `words` for traced references. A reference consists of two words: the object's address,
// and then the reference's number. On a stack, the two words need not be neighbours: the number is
// a reference if the address is anywhere in `words`.
void find_references(const World& world, const RangeOwner& place, uint64_t address,
                     std::span<const uint64_t> words) {
  const auto print = [&](const World::Reference& found, Where where, size_t i) {
    printf("place %" PRIx64 " %" PRIx64 " %x ", found.object, found.number, where);
    print_place(world, address + i * sizeof(uint64_t));
  };
  for (size_t i = 0; i < words.size(); i++) {
    const World::Reference* const found = world.reference(words[i]);
    if (!found) continue;
    if (i > 0 && words[i - 1] == found->object) {
      print(*found, where_of(world, place), i - 1);
    } else if (place.kind == RangeOwner::Kind::kStack &&
               std::find(words.begin(), words.end(), found->object) != words.end()) {
      print(*found, kStackApart, i);
    }
  }
}

// Calls visit() for all roots and for the contents of all objects (ranges.h).
template <typename Visit>
void for_each_range_of(World& world, Visit visit) {
  const auto show_roots = [&](const auto& show) {
    for (const World::Root& root : world.roots()) show(root.place, root.from, root.to);
  };
  for_each_range(world.index(), world, show_roots, visit);
}

void references(World& world) {
  for_each_range_of(
      world, [&](const RangeOwner& place, uint64_t address, std::span<const uint64_t> words) {
        find_references(world, place, address, words);
      });
}

constexpr const char* kKinds[] = {"none", "root", "owner", "word", "walker"};  // Link::Kind

void print(const World& world, const Link& link) {
  printf("%s ", kKinds[link.kind()]);
  print_place(world, link.address());
}

void holders(World& world, uint64_t address) {
  constexpr size_t kMost = 16;
  std::vector<Link> found;
  uint64_t count = 0;
  const Object object = world.index().find(address);
  if (object) {
    world.index().forget_walks();
    const auto visit = [&](const Link& link) {
      if (count++ < kMost) found.push_back(link);
    };
    Holders<World, decltype(visit)> holders(world.index(), world, object, visit);
    world.show_roots(holders);
    holders.finish();
  }
  const bool is_live = object && (object.state() & kLive);
  printf("holders %" PRIx64 " %zx %x ", count, found.size(), is_live);
  print_place(world, object ? object.address() : 0);
  for (const Link& link : found) print(world, link);
}

// Answers all `path` questions from one search.
class Search {
 public:
  explicit Search(World& world) : world_(world), links_(Paths<World>::memory_for(world.index())) {}

  void answer(uint64_t address) {
    if (!paths_) find();
    const Object object = world_.index().find(address);
    const std::span<const Link> path = paths_->path(object);
    printf("path %zx\n", path.size());
    for (const Link& link : path) print(world_, link);
  }

 private:
  void find() {
    world_.index().forget_walks();
    paths_.emplace(world_.index(), world_, links_);
    world_.show_roots(*paths_);
    paths_->finish();
  }
  World& world_;
  std::vector<Link> links_;
  std::optional<Paths<World>> paths_;
};

// A search for shortest paths in which stacks come last. A structure on a stack, such as a timer,
// to which a reached pointer leads from elsewhere, counts like an object.
class LateStacks {
 public:
  explicit LateStacks(World& world)
      : world_(world),
        links_(Paths<World>::memory_for(world.index())),
        paths_(world.index(), world, links_) {
    world.index().forget_walks();
    world.show_roots(paths_, World::Roots::kAllButStacks);
    paths_.finish();
    while (show_structures()) paths_.finish();
    world.show_roots(paths_, World::Roots::kStacks);
    paths_.finish();
  }
  const Link& link(const Object& object) const { return links_[world_.index().number_of(object)]; }

 private:
  static constexpr uint64_t kStructure = 64;  // bytes of a structure that are followed

  // Shows the structures that are newly reached. False if there are none.
  bool show_structures() {
    std::vector<uint64_t> found;
    for_each_range_of(
        world_, [&](const RangeOwner& place, uint64_t, std::span<const uint64_t> words) {
          const bool is_object = place.kind == RangeOwner::Kind::kObject;
          if (place.kind == RangeOwner::Kind::kStack || (is_object && !link(place.object))) return;
          for (const uint64_t word : words) {
            if (word % sizeof(word) == 0 && world_.is_on_stack(word) && shown_.insert(word).second)
              found.push_back(word);
          }
        });
    for (const uint64_t start : found) {
      for (uint64_t at = start; at < start + kStructure && world_.is_on_stack(at); at += 8)
        paths_.word_at(at, *world_.at(at));
    }
    return !found.empty();
  }

  World& world_;
  std::vector<Link> links_;
  Paths<World> paths_;
  std::unordered_set<uint64_t> shown_;
};

void links(World& world) {
  const LateStacks search(world);
  world.index().for_each(kLive, kLive, [&](const Object& object) {
    const Link link = search.link(object);
    if (!link) return;
    printf("%s %" PRIx64 " ", kKinds[link.kind()], object.address());
    print_place(world, link.address());
  });
}

void keepers(World& world) {
  links(world);
  const Index& index = world.index();
  const auto print = [&](const char* word, uint64_t to, const RangeOwner& place, uint64_t address) {
    printf("%s %" PRIx64 " %x ", word, to, static_cast<unsigned>(place.kind));
    print_place(world, address);
  };
  for_each_range_of(
      world, [&](const RangeOwner& place, uint64_t address, std::span<const uint64_t> words) {
        for (const uint64_t& word : words) {
          const Object object = index.find(word);
          if (object && world.is_target(object.address()))
            print("to", object.address(), place, address);
          if (place.kind != RangeOwner::Kind::kStack && world.is_on_stack(word))
            print("onto", word, place, address);
          address += sizeof(word);
        }
      });
}

uint64_t address_in(const char* text) {
  uint64_t address = 0;
  const char* const end = text + strlen(text);
  if (const auto [next, error] = std::from_chars(text, end, address, 16);
      error != std::errc() || next != end)
    throw Failure(std::string("no address: ") + text);
  return address;
}

int run(int argc, char** argv) {
  if (argc < 3) throw Failure("CORE QUESTION…, with the description on standard input");
  const std::string description{std::istreambuf_iterator<char>(std::cin), {}};
  World world(argv[1], description);
  world.reach();
  Search search(world);
  for (int i = 2; i < argc; i++) {
    const std::string_view question = argv[i];
    if (question == "unreachable") {
      unreachable(world);
    } else if (question == "references") {
      references(world);
    } else if (question == "keepers") {
      keepers(world);
    } else if (question == "holders" && i + 1 < argc) {
      holders(world, address_in(argv[++i]));
    } else if (question == "path" && i + 1 < argc) {
      search.answer(address_in(argv[++i]));
    } else {
      throw Failure("no such question: " + std::string(question));
    }
  }
  return fflush(stdout) == 0 ? 0 : 2;
}

}  // namespace
}  // namespace reach

int main(int argc, char** argv) {
  try {
    return reach::run(argc, argv);
  } catch (const std::exception& error) {
    fprintf(stderr, "reach: %s\n", error.what());
    return 2;
  }
}
