#include "intern/stack_hints_impl.h"

#include <algorithm>
#include <new>
#include <utility>

#include "intern/trace_memory.h"

namespace {

constexpr KernelHints no_kernel_hints() {
  KernelHints hints;
  hints.fill(StackTable::View::nothing());
  return hints;
}
constexpr UserHints no_user_hints() {
  UserHints hints;
  for (UserHintSet& set : hints) set.fill(StackTable::View::nothing());
  return hints;
}
// The hints of each CPU that has no page. Never changed.
constinit KernelHints empty_kernel = no_kernel_hints();
constinit UserHints empty_user = no_user_hints();

constexpr std::array<StackHints, kMaxCpus> empty_everywhere() {
  std::array<StackHints, kMaxCpus> all = {};
  all.fill({&empty_kernel, &empty_user});
  return all;
}

template <typename Page>
void open_page(Page*& page) {
  trace_memory_prepare();
  if (void* const memory = trace_page_take()) page = new (memory) Page(*page);
}

template <typename Page>
void close_page(Page*& page, Page& empty) {
  if (page != &empty) trace_page_free(std::exchange(page, &empty));
}

}  // namespace

constinit std::array<StackHints, kMaxCpus> stack_hints = empty_everywhere();

void stack_hints_open(uint32_t cpus) {
  for (uint32_t cpu = 0; cpu < cpus; cpu++) {
    open_page(stack_hints[cpu].kernel);
    open_page(stack_hints[cpu].user);
  }
}

void stack_hints_close() {
  for (StackHints& hints : stack_hints) {
    close_page(hints.kernel, empty_kernel);
    close_page(hints.user, empty_user);
  }
}

void stack_hints_clear() {
  const StackHints& hints = these_stack_hints();
  if (hints.kernel != &empty_kernel) *hints.kernel = empty_kernel;
  if (hints.user != &empty_user) *hints.user = empty_user;
}

// Before the CPU has its first task no hint is set, because a hook that finds one uses the current
// task.
void set_stack_hint(StackTable::View& hint, StackTable::View stack) {
  if (these_stack_hints().kernel != &empty_kernel && current_task_head()) hint = stack;
}

void add_stack_hint(UserHintSet& set, StackTable::View stack) {
  if (these_stack_hints().user == &empty_user) return;
  std::copy_backward(set.begin(), set.end() - 1, set.end());
  set.front() = stack;
}
