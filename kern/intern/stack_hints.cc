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

template <typename Page>
constexpr std::array<Page*, kMaxCpus> everywhere(Page* page) {
  std::array<Page*, kMaxCpus> all = {};
  all.fill(page);
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

constinit std::array<KernelHints*, kMaxCpus> kernel_hints = everywhere(&empty_kernel);
constinit std::array<UserHints*, kMaxCpus> user_hints = everywhere(&empty_user);

void stack_hints_open(uint32_t cpus) {
  for (uint32_t cpu = 0; cpu < cpus; cpu++) {
    open_page(kernel_hints[cpu]);
    open_page(user_hints[cpu]);
  }
}

void stack_hints_close() {
  for (KernelHints*& page : kernel_hints) close_page(page, empty_kernel);
  for (UserHints*& page : user_hints) close_page(page, empty_user);
}

void stack_hints_clear() {
  const uint32_t cpu = number_of(cpu_id());
  if (kernel_hints[cpu] != &empty_kernel) *kernel_hints[cpu] = empty_kernel;
  if (user_hints[cpu] != &empty_user) *user_hints[cpu] = empty_user;
}

// Before the CPU has its first task no hint is set, because a hook that finds one uses the current
// task.
void set_stack_hint(StackTable::View& hint, StackTable::View stack) {
  if (&these_kernel_hints() != &empty_kernel && current_task_head()) hint = stack;
}

void add_stack_hint(UserHintSet& set, StackTable::View stack) {
  if (user_hints[number_of(cpu_id())] == &empty_user) return;
  std::copy_backward(set.begin(), set.end() - 1, set.end());
  set.front() = stack;
}
