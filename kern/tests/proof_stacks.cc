#include "tests/proof_stacks.h"

#include <algorithm>
#include <iterator>

#include "arch/x86_64/frames.h"
#include "arena.h"
#include "core/probe_guard.h"
#include "intern/current_context.h"
#include "intern/trace_memory.h"
#include "lib/optimizer.h"
#include "sched/task.h"

namespace proof {

namespace {

constexpr uint32_t kFunctions = 3;
using Function = void* (*)(const Request& request, uint32_t word, unsigned frames, Trail* trail);
struct NamedFunction {
  Function function;
  const char* name;
};
extern const NamedFunction kPath[kFunctions];

void add_frame(Trail& trail, uint64_t address) {
  trail.frames++;
  trail.hash = (trail.hash ^ static_cast<uint32_t>(address)) * 0x9e3779b1;
}

[[gnu::noinline]] void note_trail(const void* frame, uint32_t depth, Trail* trail) {
  uint64_t addresses[StackTable::kMaxFrames];
  const size_t most = std::min<size_t>(depth > 0 ? depth - 1 : 0, std::size(addresses));
  const size_t count = walk_kernel_stack(reinterpret_cast<uint64_t>(frame), addresses, most);
  *trail = {};
  for (size_t i = 0; i < count; i++) add_frame(*trail, addresses[i]);
}

[[gnu::always_inline]] inline void* get(const Request& request) {
  return request.arena ? arena_alloc(request.arena, request.size, request.flags)
                       : kmem_cache_alloc_sized(request.cache, request.size, request.flags);
}

#define PROOF_PATH(name)                                                                         \
  [[gnu::noinline, gnu::noclone]] void* name(const Request& request, uint32_t word,              \
                                             unsigned frames, Trail* trail) {                    \
    void* object;                                                                                \
    if (frames > 1) {                                                                            \
      object = kPath[word % kFunctions].function(request, word / kFunctions, frames - 1, trail); \
    } else {                                                                                     \
      note_trail(__builtin_frame_address(0), request.depth, trail);                              \
      object = get(request);                                                                     \
    }                                                                                            \
    escape(object);                                                                              \
    return object;                                                                               \
  }
PROOF_PATH(proof_path_a)
PROOF_PATH(proof_path_b)
PROOF_PATH(proof_path_c)
#undef PROOF_PATH
constexpr NamedFunction kPath[kFunctions] = {
    {proof_path_a, "proof_path_a"}, {proof_path_b, "proof_path_b"}, {proof_path_c, "proof_path_c"}};

// Computes the user stack of a call from its seed.
size_t user_frames(uint32_t seed, uint64_t (&frames)[UserCall::kMaxFrames]) {
  const size_t count = 1 + seed % UserCall::kMaxFrames;
  for (size_t i = 0; i < count; i++)
    frames[i] = 0x400000 + ((uint64_t{seed} + i) * 0x9e3779b97f4a7c15 >> 36);
  return count;
}

}  // namespace

const char* path_function(const Path& path, unsigned index) {
  uint32_t word = path.word;
  for (unsigned i = index + 1; i < path.frames; i++) word /= kFunctions;
  return kPath[word % kFunctions].name;
}

Trail trail_of(const StackTable::View& stack) {
  Trail trail;
  for (size_t i = 1; i < stack.size(); i++) add_frame(trail, stack[i]);
  return trail;
}

void* allocate_along(const Path& path, const Request& request, Trail* trail) {
  return kPath[path.word % kFunctions].function(request, path.word / kFunctions, path.frames,
                                                trail);
}

bool UserCall::enter(uint32_t seed) {
  tables_.emplace();
  StackId stack = StackId::kNone;
  if (tables_->begin()) {
    const ProbesOff off;
    trace_memory_prepare();
    uint64_t frames[kMaxFrames];
    // First store a valid context in the task (trace_find_base). Storing a context later would
    // clear the user stack in TaskHead::trace_call.
    if (trace_find_base() != ContextId::kNone)
      stack = trace_stacks.intern(StackKind::kUser, frames, user_frames(seed, frames));
    if (stack != StackId::kNone) current_task()->trace_call = caller_with(stack);
  }
  if (stack == StackId::kNone) tables_.reset();
  return stack != StackId::kNone;
}

void UserCall::leave() {
  current_task()->trace_call = TraceCaller::kNone;
  tables_.reset();
}

bool UserCall::matches(uint32_t seed, const StackTable::View& user_stack) {
  uint64_t frames[kMaxFrames];
  const size_t count = user_frames(seed, frames);
  if (user_stack.kind() != StackKind::kUser || user_stack.size() != count) return false;
  for (size_t i = 0; i < count; i++) {
    if (user_stack[i] != frames[i]) return false;
  }
  return true;
}

}  // namespace proof
