// Stacks with known contents, for the proof of the tracer: an allocation is made along a random
// path through a few functions, so the expected record of its callers is known without the trace.
// Paths rarely repeat, so a sweep always has stacks to forget, and their entries are soon reused.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "slab.h"
#include "store/shared_tables.h"

struct arena;

namespace proof {

// A sequence of functions that call each other, outermost first, and its length.
struct Path {
  static constexpr unsigned kMaxFrames = 20;
  uint32_t word;
  uint8_t frames;
};
// Returns the name of the function in frame `index` of a path, 0 for the innermost.
const char* path_function(const Path& path, unsigned index);

// The stack of the callers, without the innermost frame.
struct Trail {
  uint32_t frames = 0;  // at most the number that was asked for
  uint32_t hash = 0;    // of their return addresses
};
// The same for a recorded stack, whose innermost frame is left out.
Trail trail_of(const StackTable::View& stack);

struct Request {
  kmem_cache* cache;  // this, or the arena
  struct arena* arena;
  size_t size;
  int flags;
  uint32_t depth;  // most frames that will be recorded
};
// Allocates along the path; *trail gets the callers' stack.
void* allocate_along(const Path& path, const Request& request, Trail* trail);

// A system call that a worker simulates. During the call the worker's records have a user stack,
// whose number the task remembers (TaskHead::trace_call) like a task that has been in user mode.
class UserCall {
 public:
  static constexpr unsigned kMaxFrames = 8;
  // Enters a call from the stack that `seed`, which is not 0, determines. False without memory.
  bool enter(uint32_t seed);
  void leave();
  // True if the stack is that of a call with this seed.
  static bool matches(uint32_t seed, const StackTable::View& user_stack);

 private:
  std::optional<StoreUse> tables_;
};

}  // namespace proof
