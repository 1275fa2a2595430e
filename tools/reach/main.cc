// Questions to a guest's memory that take looking through all of it: build/tools/stele-reach CORE
// QUESTION… with the description of memory (world.h) on standard input. What comes of it is for
// tools/stele/debugger/reach.py, which knows names, types and traces: lines of a word and
// hexadecimal numbers. Each question has its answer in turn:
//
//   unreachable       what nobody can reach (docs/unreachable.md): `live N`, and in the order of
//                     heads.h `head ADDRESS SIZE SOURCE`, then `keeps` for what it keeps
//
// Status 2 with one line on standard error if it cannot be said.
#include <cinttypes>
#include <cstdio>
#include <iostream>
#include <iterator>

#include "reach/heads.h"
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

// As look() of the kernel.
void unreachable(World& world) {
  Index& index = world.index();
  const Index::Counts counts = index.count();
  printf("live %" PRIx64 "\n", counts.live);
  index.for_each(kLive | kReached, kLive, [&](const Object& object) {
    const Source& source = world.source(object);
    if (!source.listed || (!source.is_cache && world.is_slab(object))) object.state() |= kReached;
  });
  Report report;
  find_heads(index, world, world.stack(), report);
}

int run(int argc, char** argv) {
  if (argc < 3) throw Failure("CORE QUESTION…, with the description on standard input");
  const std::string description{std::istreambuf_iterator<char>(std::cin), {}};
  World world(argv[1], description);
  world.mark();
  for (int i = 2; i < argc; i++) {
    const std::string_view question = argv[i];
    if (question == "unreachable") {
      unreachable(world);
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
