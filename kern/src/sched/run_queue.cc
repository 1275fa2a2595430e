// The scheduler: decides which task runs on which CPU.
//
// Each CPU has a queue of runnable tasks and gives each a slice of a few ticks in turn. With an
// empty queue it runs its idle task, which first tries to steal a task from a CPU with more than
// one, then halts. A task that becomes runnable goes to the CPU where it last ran if that is idle,
// otherwise to the least loaded one. A task that an interrupt wakes goes to the head of its queue
// and preempts the CPU at once, so that input is answered while others compute.
//
// State changes. kRunning -> kRunnable, kSleeping or kDead: the task itself, with its CPU's run
// queue locked. kSleeping -> kRunnable: the winner of the compare-and-exchange in run_queue_wake,
// who alone may then queue the task. kRunnable -> kRunning: the CPU that takes the task off its
// queue.
//
// The run queue's lock is held across the switch: the leaving task takes it, the next task releases
// it. So the lock of a sleeping task's last CPU can be acquired only after the task's registers are
// saved and its stack is unused.
//
// Idle tasks run on the stacks on which the CPUs started. They are on no queue and never sleep.
#include <atomic>
#include <utility>

#include "arch/x86_64/dead_frames.h"

#include "arch/x86_64/smp.h"
#include "arch/x86_64/time.h"
#include "core/log.h"
#include "lib/format.h"
#include "sched/sched.h"

namespace {

constexpr uint32_t kSlice = 3;  // ticks

struct alignas(64) RunQueue {
  Spinlock lock{LockRank::kRunQueue};
  // Under the lock.
  List<Task, &Task::run_link> ready;
  Task* dead = nullptr;  // has just left the CPU forever
  // Number of tasks that are ready or running, without idle. Written under the lock, read by all.
  std::atomic<uint32_t> load{0};
  std::atomic<bool> started{false};
};

constinit RunQueue queues[kMaxCpus];
constinit Task idle_tasks[kMaxCpus] = {};
using Activate = void (*)(Process*);
constinit Activate activate_process = nullptr;

bool is_idle(const Task* task) {
  return task >= idle_tasks && task < idle_tasks + kMaxCpus;
}

uint32_t slice_of(const Task& task) {
  return static_cast<uint32_t>(static_cast<int32_t>(kSlice) + task.extra_slice);
}

void ask_for_reschedule(Cpu& cpu) {
  __atomic_store_n(&cpu.need_resched, true, __ATOMIC_RELAXED);
}

// Chooses the CPU for a task that becomes runnable and last ran on `last`.
unsigned choose_cpu(unsigned last) {
  unsigned best = 0;
  uint32_t best_load = UINT32_MAX;
  const unsigned count = cpu_count();
  for (unsigned i = 0; i < count; i++) {
    const unsigned id = (last + i) % count;
    const RunQueue& queue = queues[id];
    if (!queue.started.load(std::memory_order_relaxed)) continue;
    const uint32_t load = queue.load.load(std::memory_order_relaxed);
    if (load >= best_load) continue;
    best = id;
    best_load = load;
    if (load == 0) break;
  }
  return best;
}

// Runs after a switch, in the next task: the second half of run_queue_switch.
void finish_switch() NO_THREAD_SAFETY_ANALYSIS {  // the lock changes hands
  RunQueue& queue = queues[cpu_id()];
  Task* dead = std::exchange(queue.dead, nullptr);
  queue.lock.unlock();
  if (dead) reaper_take(*dead);
}

// Moves a task from a CPU that has several to this one. Interrupts off.
bool steal() {
  const unsigned me = cpu_id();
  const unsigned count = cpu_count();
  for (unsigned i = 1; i < count; i++) {
    RunQueue& other = queues[(me + i) % count];
    if (other.load.load(std::memory_order_relaxed) < 2) continue;
    Task* stolen = nullptr;
    {
      const Guard guard(other.lock);
      for (Task& task : other.ready) {
        if (task.pinned) continue;
        stolen = &task;
        break;
      }
      if (!stolen) continue;
      stolen->run_link.unlink();
      other.load--;
    }
    RunQueue& mine = queues[me];
    const Guard guard(mine.lock);
    stolen->cpu = me;
    mine.ready.push_back(*stolen);
    mine.load++;
    return true;
  }
  return false;
}

// Runs in each tick on each CPU, interrupts off.
void tick() {
  timers_run();
  sweep_task_tick();
  icount_tick();
  Cpu& cpu = this_cpu();
  Task* task = task_on(cpu);
  if (!task) return;
  const uint32_t load = queues[cpu.id].load.load(std::memory_order_relaxed);
  if (is_idle(task)) {
    if (load > 0) ask_for_reschedule(cpu);
    return;
  }
  if (cpu.interrupted_user) {
    task->user_ticks++;
  } else {
    task->system_ticks++;
  }
  if (task->slice > 0 && --task->slice > 0) return;
  if (load > 1) {
    ask_for_reschedule(cpu);
  } else {
    task->slice = slice_of(*task);
  }
}

// Makes the stack that this CPU started on its idle task.
void adopt_idle_task() {
  Cpu& cpu = this_cpu();
  Task& idle = idle_tasks[cpu.id];
  format(idle.name, sizeof(idle.name), "idle%u", cpu.id);
  idle.state = TaskState::kRunning;
  idle.cpu = cpu.id;
  idle.pinned = true;
  idle.stack_base = cpu.kernel_stack - kKernelStackSize;
  cpu.current = &idle;
}

}  // namespace

const Task& idle_task(unsigned cpu) {
  return idle_tasks[cpu];
}

// Both not analysed: the lock depends on the CPU, which the analysis cannot know.
void run_queue_lock() NO_THREAD_SAFETY_ANALYSIS {
  queues[cpu_id()].lock.lock();
}
void run_queue_unlock() NO_THREAD_SAFETY_ANALYSIS {
  queues[cpu_id()].lock.unlock();
}

void run_queue_switch(Leave leave) NO_THREAD_SAFETY_ANALYSIS {
  Cpu& cpu = this_cpu();
  RunQueue& queue = queues[cpu.id];
  Task* const from = task_on(cpu);
  Task* const idle = &idle_tasks[cpu.id];
  __atomic_store_n(&cpu.need_resched, false, __ATOMIC_RELAXED);
  if (leave != Leave::kRunnable) {
    ASSERT(from != idle);
    queue.load--;
  } else if (from != idle) {
    from->state = TaskState::kRunnable;
    queue.ready.push_back(*from);
  }
  Task* to = queue.ready.pop_front();
  if (!to) to = idle;
  to->state = TaskState::kRunning;
  to->slice = slice_of(*to);
  if (to == from) {
    queue.lock.unlock();
    return;
  }
  leave == Leave::kAsleep ? from->voluntary_switches++ : from->involuntary_switches++;
  to->cpu = cpu.id;
  if (leave == Leave::kDead) queue.dead = from;
  if (from->user_registers) user_registers_save(*from->user_registers);
  if (to->user_registers) user_registers_load(*to->user_registers, cpu);
  if (to->process != from->process) activate_process(to->process);
  set_kernel_stack(to->stack_top());
  cpu.current = to;
  context_switch(&from->context, &to->context);
  finish_switch();
}

void run_queue_add(Task& task) {
  const InterruptsOff off;
  const unsigned me = cpu_id();
  const unsigned target = task.pinned ? task.cpu : choose_cpu(task.cpu);
  const bool urgent = this_cpu().interrupt_depth > 0;
  bool kick = false;
  {
    RunQueue& queue = queues[target];
    const Guard guard(queue.lock);
    task.cpu = target;
    task.state = TaskState::kRunnable;
    if (urgent) {
      queue.ready.push_front(task);
    } else {
      queue.ready.push_back(task);
    }
    queue.load++;
    if (urgent || is_idle(task_on(cpu(target)))) {
      ask_for_reschedule(cpu(target));
      kick = target != me;
    }
  }
  if (kick) cpu_kick(target);
}

void run_queue_wake(Task& task) {
  TaskState expected = TaskState::kSleeping;
  if (!task.state.compare_exchange_strong(expected, TaskState::kRunnable)) return;
  { const Guard it_has_left(queues[task.cpu].lock); }
  run_queue_add(task);
}

void task_begin(void* argument) {
  finish_switch();
  interrupts_enable();
  auto* task = static_cast<Task*>(argument);
  task->entry(task->argument);
  task_exit();
}

void schedule() {
  const InterruptsOff off;
  const Cpu& cpu = this_cpu();
  if (!cpu.current) return;
  ASSERT(cpu.held_locks == 0 && cpu.preempt_off == 0 && cpu.interrupt_depth == 0);
  run_queue_lock();
  run_queue_switch(Leave::kRunnable);
}

void task_yield() {
  schedule();
}

void sched_register_activate(void (*activate)(Process*)) {
  activate_process = activate;
}

void task_leave_process() {
  const InterruptsOff off;
  Task& task = *current_task();
  activate_process(nullptr);
  task.process = nullptr;
  task.thread = nullptr;
  task.user_registers = nullptr;
}

void sched_init() {
  adopt_idle_task();
  icount_init();
  tasks_init();
  memory_task_init();
  sweep_task_init();
  tick_register(tick);
}

// Runs other tasks; false at once if there is none. Not inlined, so that its frame is gone while
// the CPU is idle.
[[gnu::noinline]] static bool run_others(const RunQueue& queue) {
  if (queue.load == 0 && !steal()) return false;
  schedule();
  return true;
}

void sched_start_cpu() {
  interrupts_disable();
  if (!current_task()) adopt_idle_task();
  RunQueue& queue = queues[cpu_id()];
  queue.started = true;
  for (;;) {
    interrupts_disable();
    // Boot and interrupts have used this stack. Their stale words must not remain in frames that
    // stay while others run, nor in those of interrupts.
    dead_frames_clear();
    if (run_others(queue)) {
      interrupts_enable();
    } else {
      idle_wait();
    }
  }
}
