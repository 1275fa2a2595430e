// Stacks that can be told, for the proof of the tracer: an allocation is made along a random path
// through a few functions, and what a trace must have recorded of its callers is known without the
// trace. Paths are seldom met twice, so a sweep always has stacks to forget, and their places are
// soon another's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "slab.h"
#include "store/shared_tables.h"

struct arena;

namespace proof {

// Which functions call each other, and how many there are: the outermost one first.
struct Path {
  static constexpr unsigned kMaxFrames = 20;
  uint32_t word;
  uint8_t frames;
};
// The name of the function in frame `index` of a path, 0 for the innermost.
const char* path_function(const Path& path, unsigned index);

// What of the callers was on the stack, beyond the innermost frame.
struct Trail {
  uint32_t frames = 0;  // up to as many as were asked for
  uint32_t hash = 0;    // of their return addresses
};
// The same of a stack that was recorded, of which the innermost frame is left out.
Trail trail_of(const StackTable::View& stack);

struct Request {
  kmem_cache* cache;  // or
  struct arena* arena;
  size_t size;
  int flags;
  uint32_t depth;  // frames that will be recorded at most
};
// Allocates along the path; what was on the stack goes to *trail.
void* allocate_along(const Path& path, const Request& request, Trail* trail);

// A system call that a worker plays: for as long as it is in it, its records have a user stack,
// whose number the task remembers (TaskHead::trace_call) as one that has been in user mode does.
class UserCall {
 public:
  static constexpr unsigned kMaxFrames = 8;
  // The current task enters a call from the stack that `seed`, which is not 0, stands for. False if
  // there is no memory for it.
  bool enter(uint32_t seed);
  void leave();
  // Whether it is the stack of a call from there.
  static bool matches(uint32_t seed, const StackTable::View& user_stack);

 private:
  std::optional<StoreUse> tables_;
};

}  // namespace proof
