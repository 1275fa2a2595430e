#include "intern/stack_hints_impl.h"

#include <new>
#include <utility>

#include "intern/trace_memory.h"
#include "lib/units.h"

constinit const StackHints no_stack_hints = [] {
  StackHints hints = {};
  hints.kernel.fill(StackTable::View::nothing());
  for (UserHintSet& set : hints.user) set.fill(StackTable::View::nothing());
  return hints;
}();

namespace {

static_assert(sizeof(StackHints) % kPageSize == 0);
constexpr auto kNowhere = const_cast<StackHints*>(&no_stack_hints);

}  // namespace

constinit std::array<StackHints*, kMaxCpus> stack_hints = [] {
  std::array<StackHints*, kMaxCpus> all = {};
  all.fill(kNowhere);
  return all;
}();

void stack_hints_open(uint32_t cpus) {
  for (uint32_t cpu = 0; cpu < cpus; cpu++)
    if (void* const memory = trace_block_take(sizeof(StackHints)))
      stack_hints[cpu] = new (memory) StackHints(no_stack_hints);
}

void stack_hints_close() {
  for (StackHints*& hints : stack_hints)
    if (hints != kNowhere) trace_block_free(std::exchange(hints, kNowhere), sizeof(StackHints));
}

void stack_hints_clear() {
  StackHints& hints = these_stack_hints();
  if (&hints != kNowhere) hints = no_stack_hints;
}
