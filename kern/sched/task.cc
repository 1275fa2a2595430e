// Creation and end of tasks.
//
// A kernel stack is four pages of memory, mapped into the kernel's virtual range above an unmapped
// guard page, so that an overflow faults instead of overwriting other memory. Unmapping interrupts
// every CPU, so up to kMaxFreeStacks free stacks stay mapped in a list for later tasks. The command
// `settle` (trace/control/settle_impl.h) releases these cached stacks. Traces of the arenas show a
// cached stack as free. When a task reuses the stack, the traces show it as allocated by the
// creator of that task.
//
// A dead task cannot free the stack that it runs on: the next task on the CPU hands the dead task
// to the reaper, a kernel task. All CPUs together may end tasks faster than the reaper frees them.
// So task_create() first frees a dead task itself, and the new task usually gets the dead task's
// stack. In this way dead tasks never use up memory.
#include "arch/x86_64/context.h"
#include "arch/x86_64/dead_frames.h"
#include "arch/x86_64/paging.h"
#include "arena.h"
#include "core/errstr.h"
#include "core/log.h"
#include "core/planted.h"
#include "kmalloc.h"
#include "lib/format.h"
#include "lib/string.h"
#include "reach/reach.h"
#include "sched/coverage.h"
#include "sched/sched_impl.h"
#include "slab_trace.h"
#include "trace/trace.h"

namespace {

constexpr size_t kGuardSize = kPageSize;
constexpr unsigned kMaxFreeStacks = 16;

constinit ObjectCache<Task> task_cache;
constinit std::atomic<uint32_t> last_task_id{0};

constinit Spinlock list_lock{LockRank::kTaskList};
constinit List<Task, &Task::all_link> all_tasks;
constinit Task* next_remembered GUARDED_BY(list_lock) =
    nullptr;  // tasks_remembered() continues here

// Stored in the memory of a cached stack.
struct FreeStack {
  FreeStack* next;
  void* memory;
};
constinit Spinlock stacks_lock{LockRank::kTaskList};
constinit FreeStack* free_stacks = nullptr;
constinit unsigned free_stack_count = 0;

constinit Spinlock reaper_lock{LockRank::kReaper};
constinit List<Task, &Task::run_link> dead_tasks;
void (*leave_task)(Task&) = nullptr;                        // set by task_register_exit
void (*inherit_task)(Task& parent, Task& child) = nullptr;  // set by task_register_fork
// Tasks that have called task_will_exit and are not freed yet.
constinit uint32_t exiting_count = 0;
constinit WaitQueue reaper_wait, drain_wait;

// Start of the stack's virtual range, which begins with the guard page.
void* range_of(const KernelStack& stack) {
  return reinterpret_cast<void*>(stack.base - kGuardSize);
}

bool take_free_stack(KernelStack& stack) {
  const Guard guard(stacks_lock);
  if (!free_stacks) return false;
  stack = {reinterpret_cast<uint64_t>(free_stacks), free_stacks->memory};
  free_stacks = free_stacks->next;
  free_stack_count--;
  return true;
}

// Adds a stack to the list of free stacks. False if the list is full.
bool keep_free_stack(const KernelStack& stack) {
  const Guard guard(stacks_lock);
  if (free_stack_count == kMaxFreeStacks) return false;
  auto* free_stack = reinterpret_cast<FreeStack*>(stack.base);
  *free_stack = {free_stacks, stack.memory};
  free_stacks = free_stack;
  free_stack_count++;
  return true;
}

// Frees a stack after arena_set_aside() has been called for it in both arenas.
void stack_release(const KernelStack& stack) {
  unmap_kernel(stack.base, kKernelStackSize);
  arena_free_set_aside(kernel_virtual_arena, range_of(stack), kGuardSize + kKernelStackSize);
  arena_free_set_aside(page_arena, stack.memory, kKernelStackSize);
}

}  // namespace

ALLOCATOR_TEXT Result<KernelStack> kernel_stack_alloc() {
  KernelStack stack;
  if (take_free_stack(stack)) {
    arena_reissue(page_arena, stack.memory, kKernelStackSize);
    arena_reissue(kernel_virtual_arena, range_of(stack), kGuardSize + kKernelStackSize);
    return stack;
  }
  stack.memory = arena_alloc(page_arena, kKernelStackSize, KM_SLEEP);
  if (!stack.memory) return Errno::ENOMEM;
  void* range = arena_alloc(kernel_virtual_arena, kGuardSize + kKernelStackSize, KM_SLEEP);
  if (range) {
    stack.base = reinterpret_cast<uint64_t>(range) + kGuardSize;
    const PhysAddr physical = direct_map_phys(stack.memory);
    if (map_kernel(stack.base, physical, kKernelStackSize, Access::kReadWrite)) return stack;
    arena_free(kernel_virtual_arena, range, kGuardSize + kKernelStackSize);
  }
  arena_free(page_arena, stack.memory, kKernelStackSize);
  return Errno::ENOMEM;
}

void kernel_stack_free(const KernelStack& stack) {
  arena_set_aside(kernel_virtual_arena, range_of(stack));
  arena_set_aside(page_arena, stack.memory);
  if (planted(Planted::kKeptStack) && !(arena_flags(page_arena) & KMC_EVER_TRACED)) return;
  if (keep_free_stack(stack)) return;
  stack_release(stack);
}

namespace {

// Called by `settle` (trace/control/settle_impl.h): frees all dead tasks and all cached stacks.
void settle() {
  task_drain_dead();
  KernelStack stack;
  while (take_free_stack(stack)) stack_release(stack);
}

// ---- Functions for reach/reach.h, which marks reachable memory. In the kernel stack of a task
// that does not run, only the part above the saved stack pointer is in use. visit_stacks also marks
// the cached stacks. The search cannot follow the list of cached stacks: the links of the list are
// addresses in the kernel's virtual range, where no object is.

void hide_task(Task& task, void* visitor) {
  if (task.stack_memory) static_cast<ReachVisitor*>(visitor)->hide(task.stack_memory);
}

void visit_task(Task& task, void* visitor) {
  if (cpu(task.cpu).current == &task || task.state == TaskState::kDead) return;
  static_cast<ReachVisitor*>(visitor)->stack(task, task.context.stack_pointer, task.stack_top());
}

void hide_stacks(ReachVisitor& visitor) {
  task_for_each(hide_task, &visitor);
  const Guard guard(stacks_lock);
  for (const FreeStack* stack = free_stacks; stack; stack = stack->next)
    visitor.hide(stack->memory);
}

void visit_stacks(ReachVisitor& visitor) {
  task_for_each(visit_task, &visitor);
  for (const CpuId id : all_cpus()) {
    const Task& idle = idle_task(id);
    if (cpu(id).online && cpu(id).current != &idle)
      visitor.stack(idle, idle.context.stack_pointer, idle.stack_top());
  }
  const Guard guard(stacks_lock);
  for (const FreeStack* stack = free_stacks; stack; stack = stack->next)
    visitor.object(stack->memory);
}

const char* state_name(const Task& task) {
  if (cpu(task.cpu).current == &task) return "running";
  switch (task.state) {
    case TaskState::kSleeping:
      return "sleeping";
    case TaskState::kDead:
      return "dead";
    case TaskState::kRunnable:
    case TaskState::kRunning:
      break;
  }
  return "runnable";
}

int format_task(char* buffer, size_t size, const Task& task) {
  char pid[24] = "";
  if (task.pid != 0) format(pid, sizeof(pid), ", pid %u", task.pid);
  return format(buffer, size, "task %u %s%s, %s on CPU %u", task.id, task.name, pid,
                state_name(task), number_of(task.cpu));
}

// A request to describe an address, and the answer.
struct Described {
  uint64_t address;
  char* buffer;
  size_t size;
  int length = 0;

  bool lies_in(uint64_t start, size_t bytes) const { return address - start < bytes; }
};

void describe_task(const Task& task, Described& described) {
  const auto memory = reinterpret_cast<uint64_t>(task.stack_memory);
  if (described.length > 0 || task.stack_base == 0) return;
  char words[128];
  format_task(words, sizeof(words), task);
  if (described.lies_in(task.stack_base, kKernelStackSize)) {
    described.length = format(described.buffer, described.size,
                              "the kernel stack of %s, 0x%lx bytes below its top", words,
                              task.stack_top() - described.address);
  } else if (described.lies_in(task.stack_base - kGuardSize, kGuardSize)) {
    described.length = format(described.buffer, described.size,
                              "the guard page below the kernel stack of %s", words);
  } else if (memory != 0 && described.lies_in(memory, kKernelStackSize)) {
    described.length =
        format(described.buffer, described.size, "the direct map of 0x%lx, the kernel stack of %s",
               task.stack_base + described.address - memory, words);
  }
}

int describe_stack(uint64_t address, char* buffer, size_t size) {
  Described described{address, buffer, size};
  task_for_each(
      [](Task& task, void* argument) { describe_task(task, *static_cast<Described*>(argument)); },
      &described);
  for (const CpuId id : all_cpus()) {
    if (cpu(id).online) describe_task(idle_task(id), described);
  }
  const Guard guard(stacks_lock);
  for (const FreeStack* stack = free_stacks; stack; stack = stack->next) {
    const uint64_t start = reinterpret_cast<uint64_t>(stack) - kGuardSize;
    if (described.lies_in(start, kGuardSize + kKernelStackSize))
      described.length = format(buffer, size, "a kernel stack that waits for the next task");
  }
  return described.length;
}

// Describes an object of the task cache. A task that is being created is not in the list yet and is
// not described.
int describe_object(const kmem_cache* cache, const void* object, char* buffer, size_t size) {
  if (cache != task_cache.cache()) return 0;
  Described described{reinterpret_cast<uint64_t>(object), buffer, size};
  task_for_each(
      [](Task& task, void* argument) {
        auto& about = *static_cast<Described*>(argument);
        if (reinterpret_cast<uint64_t>(&task) == about.address)
          about.length = format_task(about.buffer, about.size, task);
      },
      &described);
  return described.length;
}

constinit ReachProvider stacks_provider{hide_stacks, visit_stacks, describe_stack, describe_object};

void task_free(Task* task) {
  {
    const Guard guard(list_lock);
    if (next_remembered == task) next_remembered = all_tasks.next(*task);
    task->all_link.unlink();
  }
  kernel_stack_free({task->stack_base, task->stack_memory});
  task_cache.destroy(task);
}

Task* take_dead() {
  const Guard guard(reaper_lock);
  return dead_tasks.pop_front();
}

// Frees a dead task, if there is one.
void reap_one() {
  Task* const task = take_dead();
  if (!task) return;
  task_free(task);
  const Guard guard(reaper_lock);
  exiting_count--;
  if (exiting_count == 0) drain_wait.wake_all();
}

void wait_for_dead() {
  const Guard guard(reaper_lock);
  reaper_wait.wait_uninterruptible(reaper_lock, [] { return !dead_tasks.empty(); });
}

void reaper_main(void*) {
  for (;;) {
    dead_frames_clear();
    wait_for_dead();
    reap_one();
  }
}

}  // namespace

void reaper_take(Task& task) {
  const Guard guard(reaper_lock);
  dead_tasks.push_back(task);
  reaper_wait.wake_one();
}

void tasks_init() {
  task_cache.init("task");
  trace_register_settle(settle);
  reach_register(stacks_provider);
  lock_waits_init();
  auto reaper = task_create("reaper", reaper_main, nullptr);
  if (!reaper) panic("no memory for the first task");
  task_start(*reaper);
}

Result<Task*> task_create(const char* name, void (*entry)(void*), void* argument) {
  reap_one();
  const KernelStack stack = TRY(kernel_stack_alloc());
  auto made = task_cache.make(KM_SLEEP);
  if (!made) {
    kernel_stack_free(stack);
    return Errno::ENOMEM;
  }
  Task* task = *made;
  format(task->name, sizeof(task->name), "%s", name);
  task->id = ++last_task_id;
  task->state = TaskState::kSleeping;
  task->entry = entry;
  task->argument = argument;
  task->stack_base = stack.base;
  task->stack_memory = stack.memory;
  // A stack frame contains stale words of the memory in which it lies. reach/reach.h would take a
  // stale address of a leaked object for a pointer to it, and would not report the object. Clearing
  // one page is enough, because few system calls use more stack.
  memset(reinterpret_cast<void*>(task->stack_top() - kPageSize), 0, kPageSize);
  context_init(task->context, task->stack_top(), task_begin, task);
  const Guard guard(list_lock);
  all_tasks.push_back(*task);
  return task;
}

void task_start(Task* task, CpuId cpu) {
  task->pinned = cpu != kAnyCpu;
  {
    const InterruptsOff off;
    task->cpu = task->pinned ? cpu : cpu_id();
  }
  run_queue_add(*task);
}

void task_discard(Task* task) {
  task_free(task);
}

void task_will_exit() {
  Task* task = current_task();
  const Guard guard(reaper_lock);
  if (task->exiting) return;
  task->exiting = true;
  exiting_count++;
}

void task_register_exit(void (*leave)(Task&)) {
  ASSERT(!leave_task);
  leave_task = leave;
}

void task_register_fork(void (*inherit)(Task& parent, Task& child)) {
  ASSERT(!inherit_task);
  inherit_task = inherit;
}

void task_forked(Task& parent, Task& child) {
  if (inherit_task) inherit_task(parent, child);
}

void task_exit() {
  if (leave_task) leave_task(*current_task());
#ifdef CONFIG_COVERAGE
  coverage_use(nullptr);
#endif
  task_will_exit();
  interrupts_disable();
  const Cpu& cpu = this_cpu();
  ASSERT(cpu.held_locks == 0 && cpu.preempt_off == 0 && cpu.interrupt_depth == 0);
  this_run_queue.lock();
  task_on(cpu)->state = TaskState::kDead;
  run_queue_switch(Leave::kDead);
  panic("a dead task runs");
}

void task_drain_dead() {
  const Guard guard(reaper_lock);
  drain_wait.wait_uninterruptible(reaper_lock, [] { return exiting_count == 0; });
}

void task_for_each(void (*visit)(Task& task, void* argument), void* argument) {
  const Guard guard(list_lock);
  for (Task& task : all_tasks) visit(task, argument);
}

size_t tasks_remembered(bool first, TraceNumbers (&numbers)[kRememberedAtOnce]) {
  const Guard guard(list_lock);
  if (first) next_remembered = all_tasks.front();
  size_t count = 0;
  for (; next_remembered && count < kRememberedAtOnce; count++) {
    numbers[count] = trace_remembered_by(*next_remembered);
    next_remembered = all_tasks.next(*next_remembered);
  }
  return count;
}

// The error string that is used before there are tasks.
static constinit char boot_error_string[ABI_ERRSTR_MAX] = {};

static char* place_of_error_string() {
  Task* const task = current_task();
  return task ? task->error_string : boot_error_string;
}

Errno fail(Errno error, const char* pattern, ...) {
  if (this_cpu().interrupt_depth > 0) return error;
  va_list arguments;
  va_start(arguments, pattern);
  vformat(place_of_error_string(), ABI_ERRSTR_MAX, pattern, arguments);
  va_end(arguments);
  return error;
}

const char* error_string() {
  return place_of_error_string();
}
