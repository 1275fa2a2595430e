// Prints the kernel stacks of tasks that sleep or wait for a CPU. A stack shows why its process
// does not continue. A running task is listed without its stack, because the stack changes. Tasks
// after the first kMaxTasks are only counted.
//
// The stacks are walked while the task list is locked, so that no task or stack is freed. They are
// printed after the list is unlocked. A task that runs during the walk may show stale frames.
#ifdef CONFIG_DEBUG_DEVICE

#include "drivers/dev/debug_stacks.h"

#include "core/symbols.h"
#include "kmalloc.h"
#include "lib/format.h"
#include "sched/task.h"

namespace {

constexpr size_t kMaxTasks = 128, kMaxFrames = 24;

struct TaskStack {
  char name[32];
  uint32_t pid, thread;  // thread 0: the process's first thread
  TaskState state;
  bool interruptible;
  size_t count;
  uint64_t frames[kMaxFrames];
};

struct Stacks {
  size_t count, left_out;
  TaskStack tasks[kMaxTasks];
};

void add_task(Task& task, void* argument) {
  Stacks& stacks = *static_cast<Stacks*>(argument);
  if (stacks.count == kMaxTasks) {
    stacks.left_out++;
    return;
  }
  TaskStack& stack = stacks.tasks[stacks.count++];
  format(stack.name, sizeof(stack.name), "%s", task.name);
  stack.pid = task.pid;
  stack.thread = task.thread_in_context;
  stack.state = task.state;
  stack.interruptible = task.interruptible;
  stack.count = 0;
  if (stack.state == TaskState::kRunning || !task.stack_memory) return;
  stack.count = task_walk_stack(task, stack.frames, kMaxFrames);
}

const char* state_name(const TaskStack& stack) {
  switch (stack.state) {
    case TaskState::kRunnable:
      return "waits for a CPU";
    case TaskState::kRunning:
      return "runs";
    case TaskState::kSleeping:
      return stack.interruptible ? "sleeps" : "sleeps, no signal wakes it";
    default:
      return "is dead";
  }
}

}  // namespace

Result<void> debug_print_stacks(Text& text) {
  auto* const stacks = static_cast<Stacks*>(kmalloc(sizeof(Stacks), KM_SLEEP));
  if (!stacks) return Errno::ENOMEM;
  stacks->count = stacks->left_out = 0;
  task_for_each(add_task, stacks);
  for (size_t i = 0; i < stacks->count; i++) {
    const TaskStack& stack = stacks->tasks[i];
    text.print("pid %u", stack.pid);
    if (stack.thread != 0) text.print(" thread %u", stack.thread);
    text.print(" %s: %s\n", stack.name, state_name(stack));
    for (size_t j = 0; j < stack.count; j++) {
      char line[200];
      symbol_format(line, sizeof(line), stack.frames[j]);
      text.print("    %s\n", line);
    }
  }
  if (stacks->left_out > 0) text.print("%zu more tasks are not shown\n", stacks->left_out);
  kfree(stacks);
  return {};
}

#endif  // CONFIG_DEBUG_DEVICE
