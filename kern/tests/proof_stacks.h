// Stacks with known contents, for the proof of the tracer (trace_proof_test.cc). An allocation is
// made along a random path through a few functions, so the test knows the stack without the trace.
// Long paths rarely repeat, so a sweep of the stack table always finds stacks to forget, and new
// stacks soon reuse the entries.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "intern/shared_tables.h"
#include "slab.h"

struct arena;

namespace proof {

// A sequence of function calls. `word` encodes the functions as a number in base kFunctions
// (proof_stacks.cc), whose lowest digit is the outermost function. `frames` is the number of
// functions.
struct Path {
  static constexpr unsigned kMaxFrames = 20;
  uint32_t word;
  uint8_t frames;
};
// Returns the name of the function in frame `index` of a path, 0 for the innermost.
const char* path_function(const Path& path, unsigned index);

// A summary of an allocation's stack without the innermost frame, which is the allocator's caller.
struct Trail {
  uint32_t frames = 0;  // at most Request::depth - 1
  uint32_t hash = 0;    // hash of the frames' return addresses
};
// Returns the trail of a recorded stack.
Trail trail_of(const StackTable::View& stack);

struct Request {
  kmem_cache* cache;  // set, unless the request is for the arena
  struct arena* arena;
  size_t size;
  int flags;
  uint32_t depth;  // maximum number of recorded frames
};
// Allocates along the path. Sets *trail to the trail of the allocation.
void* allocate_along(const Path& path, const Request& request, Trail* trail);

// A system call that a worker simulates. During the call the worker looks like a task that has
// entered the kernel from user mode: TaskHead::trace_call contains the number of a user stack, and
// records of the worker's allocations refer to this stack.
class UserCall {
 public:
  static constexpr unsigned kMaxFrames = 8;
  // Enters a call whose stack follows from `seed`, which is not 0. False if there is no memory.
  bool enter(uint32_t seed);
  void leave();
  // True if the stack is that of a call with this seed.
  static bool matches(uint32_t seed, const StackTable::View& user_stack);

 private:
  std::optional<TablesOpen> tables_;
};

}  // namespace proof
