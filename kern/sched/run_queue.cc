// The scheduler: decides which task runs on which CPU.
//
// Each CPU has a queue of runnable tasks and gives each task a slice of a few ticks in turn. With
// an empty queue the CPU runs its idle task. The idle task first tries to steal a task from a CPU
// that has several, then halts. A task that becomes runnable goes to the CPU where it last ran if
// that CPU is idle, otherwise to the least loaded CPU. A task that an interrupt wakes goes to the
// head of its queue and preempts the CPU at once, so that input is answered while others compute.
// But if the task has used up its slice, it goes to the end of the queue and gets the next slice in
// its turn. So a task gets no more than its share by sleeping often. Kernel tasks always preempt.
//
// A task is charged at each switch and in each tick for the time since the last charge on its CPU,
// by the time stamp counter. So a task that sleeps just before each tick is charged, too. Each tick
// also looks whether the task is in user mode or in the kernel. The time up to the next tick that
// finds the task counts as user or system time accordingly.
//
// A task that sleeps or yields keeps the rest of its slice, and is preempted when the slice is used
// up. A tick that finds less than half a tick left ends the slice. The rest, or the time that the
// task ran too long, changes the length of its next slice. If a task got a new slice each time, it
// could starve other tasks. For example, a task may yield with a mutex held, and lock the mutex
// again soon after unlocking it. Such a task would leave the CPU only with the mutex held, so no
// other task of this CPU would get the mutex.
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
#include <algorithm>
#include <atomic>
#include <utility>

#include "arch/x86_64/dead_frames.h"

#include "arch/x86_64/smp.h"
#include "arch/x86_64/time.h"
#include "core/log.h"
#include "core/planted.h"
#include "lib/format.h"
#include "sched/sched_impl.h"
#include "trace/trace.h"

namespace {

constexpr int32_t kSlice = 3;       // ticks
constinit int64_t tick_length = 0;  // tsc_per_tick()

struct alignas(64) RunQueue {
  Spinlock lock{LockRank::kRunQueue};
  // Guarded by `lock`.
  List<Task, &Task::run_link> ready GUARDED_BY(lock);
  Task* dead GUARDED_BY(lock) = nullptr;  // the task that has just left the CPU forever
  // Number of tasks that are ready or running, without the idle task. Written with the lock held,
  // read without it.
  std::atomic<uint32_t> load{0};
  std::atomic<bool> started{false};
  uint64_t charged = 0;  // time stamp of the last charge; used only by the CPU, interrupts off
};

constinit RunQueue queues[kMaxCpus];
constinit Task idle_tasks[kMaxCpus] = {};
using Activate = void (*)(Process*);
constinit Activate activate_process = nullptr;
using CpuTimeUsed = void (*)(Task&, Nanoseconds user, Nanoseconds system);
constinit CpuTimeUsed cpu_time_used = nullptr;

RunQueue& queue_of(CpuId cpu) {
  return queues[number_of(cpu)];
}

bool is_idle(const Task* task) {
  return task >= idle_tasks && task < idle_tasks + kMaxCpus;
}

bool has_slice(const Task& task) {
  return task.slice > tick_length / 2;
}

void renew_slice(Task& task) {
  const int64_t full = tick_length * (kSlice + task.extra_slice);
  task.slice = std::max(task.slice + full, full / 2);
}

// Charges the task that runs on the CPU of `queue`, which is this CPU. Interrupts off.
void charge(RunQueue& queue, Task& task) {
  const uint64_t now = tsc();
  const uint64_t used = now - queue.charged;
  queue.charged = now;
  if (planted(Planted::kFreeTime) && this_cpu().interrupt_depth == 0) return;
  (task.was_in_kernel ? task.system_time : task.user_time) += used;
  task.slice -= static_cast<int64_t>(used);
}

// Tells the hook what the current task has used. Interrupts off, no lock held.
void tell_cpu_time(Task& task) {
  const uint64_t user = task.user_time - std::exchange(task.told_user_time, task.user_time),
                 system = task.system_time - std::exchange(task.told_system_time, task.system_time);
  if (cpu_time_used) cpu_time_used(task, tsc_duration(user), tsc_duration(system));
}

bool owes_a_tick(const Task& task) {
  return static_cast<int64_t>(task.user_time + task.system_time - task.told_user_time -
                              task.told_system_time) >= tick_length;
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
  if (Task& task = *current_task(); owes_a_tick(task)) tell_cpu_time(task);
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
  RunQueue& queue = queue_of(cpu.id);
  const uint32_t load = queue.load.load(std::memory_order_relaxed);
  task->was_in_kernel = !cpu.interrupted_user;
  charge(queue, *task);
  if (is_idle(task)) {
    if (load > 0) ask_for_reschedule(cpu);
    return;
  }
  tell_cpu_time(*task);
  if (has_slice(*task)) return;
  if (load > 1) {
    ask_for_reschedule(cpu);
  } else {
    renew_slice(*task);
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
  queue_of(cpu.id).charged = tsc();
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
  charge(queue, *from);
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
  if (!has_slice(*to)) renew_slice(*to);
  if (to == from) {
    this_run_queue.unlock();
    return;
  }
  leave == Leave::kAsleep ? from->voluntary_switches++ : from->involuntary_switches++;
  to->cpu = cpu.id;
  if (leave == Leave::kDead) queue.dead = from;
  if (from->user_registers) user_registers_save(*from->user_registers);
  if (to->user_registers) user_registers_load(*to->user_registers, cpu);
  // A task that has come from another CPU may be in the middle of a change of its address space. It
  // has invalidated the translations of the other CPU only, and its flush will leave out this one
  // (paging.cc). So the space is activated again, even if the last task here was of the same
  // process.
  const bool has_moved = to->process && to->ran_on != cpu.id && !planted(Planted::kTlbSwitch);
  if (to->process != from->process || has_moved) activate_process(to->process);
  to->ran_on = cpu.id;
  set_kernel_stack(to->stack_top());
  cpu.current = to;
  context_switch(&from->context, &to->context);
  finish_switch();
}

void run_queue_add(Task& task) {
  const InterruptsOff off;
  const CpuId me = cpu_id();
  const CpuId target = task.pinned ? task.cpu : choose_cpu(task.cpu);
  const bool urgent = this_cpu().interrupt_depth > 0 && (!task.process || has_slice(task));
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

void sched_register_cpu_time(CpuTimeUsed used) {
  cpu_time_used = used;
}

void task_charge() {
  charge(queue_of(cpu_id()), *current_task());
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
  tick_length = static_cast<int64_t>(tsc_per_tick());
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
