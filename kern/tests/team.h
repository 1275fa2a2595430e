// Teams of tasks that run the same function, for tests.
#pragma once

#include "core/ktest.h"
#include "sched/task.h"

// Starts tasks, and waits until all have ended.
class Team {
 public:
  explicit Team(void (*body)(void*), void* argument) : body_(body), argument_(argument) {}
  void add(CpuId cpu = kAnyCpu) {
    auto task = task_create("ktest", run, this);
    EXPECT(task.ok());
    if (!task) return;
    {
      const Guard guard(lock_);
      running_++;
    }
    task_start(*task, cpu);
  }
  void join() {
    const Guard guard(lock_);
    done_.wait_uninterruptible(lock_, [this] { return running_ == 0; });
  }

 private:
  static void run(void* team) {
    task_will_exit();  // makes task_drain_dead() after join() wait for this task
    auto* self = static_cast<Team*>(team);
    self->body_(self->argument_);
    const Guard guard(self->lock_);
    if (--self->running_ == 0) self->done_.wake_all();
  }

  void (*body_)(void*);
  void* argument_;
  Spinlock lock_{LockRank::kDevice};
  WaitQueue done_;
  unsigned running_ = 0;
};
