// The scheduler: decides which task runs on which CPU.
//
// Each CPU has a queue of runnable tasks and gives each task a slice of a few ticks in turn. With
// an empty queue the CPU runs its idle task. The idle task first tries to steal a task from a CPU
// that has several, then halts. A task that becomes runnable goes to the CPU where it last ran if
// that CPU is idle, otherwise to the least loaded CPU. A task that an interrupt wakes goes to the
// head of its queue and preempts the CPU at once, so that input is answered while others compute.
//
// A task that sleeps or yields keeps the rest of its slice, and is preempted when the slice is used
// up. If a task got a new slice each time, it could starve other tasks. For example, a task may
// yield with a mutex held, and lock the mutex again soon after unlocking it. Such a task would
// leave the CPU only with the mutex held, so no other task of this CPU would get the mutex.
//
// State changes. kRunning -> kRunnable, kSleeping or kDead: by the task itself, with its CPU's run
// queue locked. kSleeping -> kRunnable: by the caller that wins the compare-and-exchange in
// run_queue_wake; only the winner may then queue the task. kRunnable -> kRunning: by the CPU that
// takes the task off its queue.
//
// The run queue's lock is held across the switch: the leaving task takes it, the next task releases
// it. After the exchange, the waker acquires the lock of the run queue where the sleeping task last
// ran, and only then queues the task. Once the waker has the lock, the task's registers are saved
// and its stack is unused.
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
#include "trace/trace.h"

namespace {

constexpr uint32_t kSlice = 3;  // ticks

struct alignas(64) RunQueue {
  Spinlock lock{LockRank::kRunQueue};
  // Guarded by `lock`.
  List<Task, &Task::run_link> ready GUARDED_BY(lock);
  Task* dead GUARDED_BY(lock) = nullptr;  // the task that has just left the CPU forever
  // Number of tasks that are ready or running, without the idle task. Written with the lock held,
  // read without it.
  std::atomic<uint32_t> load{0};
  std::atomic<bool> started{false};
};

constinit RunQueue queues[kMaxCpus];
constinit Task idle_tasks[kMaxCpus] = {};
using Activate = void (*)(Process*);
constinit Activate activate_process = nullptr;

RunQueue& queue_of(CpuId cpu) {
  return queues[number_of(cpu)];
}

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
CpuId choose_cpu(CpuId last) {
  CpuId best = kBootCpu;
  uint32_t best_load = UINT32_MAX;
  const unsigned count = cpu_count();
  for (unsigned i = 0; i < count; i++) {
    const CpuId id{(number_of(last) + i) % count};
    const RunQueue& queue = queue_of(id);
    if (!queue.started.load(std::memory_order_relaxed)) continue;
    const uint32_t load = queue.load.load(std::memory_order_relaxed);
    if (load >= best_load) continue;
    best = id;
    best_load = load;
    if (load == 0) break;
  }
  return best;
}

// The second half of run_queue_switch: runs after a switch, in the task that has been switched to.
void finish_switch() RELEASE(this_run_queue) {
  RunQueue& queue = queue_of(cpu_id());
  queue.lock.known_held();
  Task* dead = std::exchange(queue.dead, nullptr);
  this_run_queue.unlock();
  if (dead) reaper_take(*dead);
}

// Moves a task to this CPU from another CPU that has several. False if there is none. Interrupts
// off.
bool steal() {
  const CpuId me = cpu_id();
  const unsigned count = cpu_count();
  for (unsigned i = 1; i < count; i++) {
    RunQueue& other = queues[(number_of(me) + i) % count];
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
    RunQueue& mine = queue_of(me);
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
  const uint32_t load = queue_of(cpu.id).load.load(std::memory_order_relaxed);
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

// Makes the code that is running on this CPU's start-up stack the CPU's idle task.
void adopt_idle_task() {
  Cpu& cpu = this_cpu();
  Task& idle = idle_tasks[number_of(cpu.id)];
  format(idle.name, sizeof(idle.name), "idle%u", number_of(cpu.id));
  idle.state = TaskState::kRunning;
  idle.cpu = cpu.id;
  idle.pinned = true;
  idle.stack_base = cpu.kernel_stack - kKernelStackSize;
  cpu.current = &idle;
}

}  // namespace

const Task& idle_task(CpuId cpu) {
  return idle_tasks[number_of(cpu)];
}

void ThisRunQueue::lock() {
  queue_of(cpu_id()).lock.lock();
}
void ThisRunQueue::unlock() {
  queue_of(cpu_id()).lock.unlock();
}

void run_queue_switch(Leave leave) {
  Cpu& cpu = this_cpu();
  RunQueue& queue = queue_of(cpu.id);
  queue.lock.known_held();
  Task* const from = task_on(cpu);
  Task* const idle = &idle_tasks[number_of(cpu.id)];
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
  if (to->slice == 0) to->slice = slice_of(*to);
  if (to == from) {
    this_run_queue.unlock();
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
  const CpuId me = cpu_id();
  const CpuId target = task.pinned ? task.cpu : choose_cpu(task.cpu);
  const bool urgent = this_cpu().interrupt_depth > 0;
  bool kick = false;
  {
    RunQueue& queue = queue_of(target);
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
  { const Guard it_has_left(queue_of(task.cpu).lock); }
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
  this_run_queue.lock();
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

// Runs other tasks until this CPU has no more tasks. Returns false at once if there is no task to
// run. Not inlined, so that no frame of this function is on the stack while the CPU is idle.
[[gnu::noinline]] static bool run_others(const RunQueue& queue) {
  if (queue.load == 0 && !steal()) return false;
  schedule();
  return true;
}

void sched_start_cpu() {
  interrupts_disable();
  if (!current_task()) adopt_idle_task();
  trace_start_cpu();
  RunQueue& queue = queue_of(cpu_id());
  queue.started = true;
  for (;;) {
    interrupts_disable();
    // Boot and interrupts have used this stack. Their stale words must not stay in the idle task's
    // frames, or in frames of later interrupts, where reach/reach.h would take them for pointers.
    dead_frames_clear();
    if (run_others(queue)) {
      interrupts_enable();
    } else {
      idle_wait();
    }
  }
}
