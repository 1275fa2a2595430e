// The head of every Task (sched/task.h): what the layers below the scheduler know of a task.
#pragma once

#include <cstdint>

#include "lib/list.h"

struct Process;

// In TaskHead::trace_call: the trap frame at the top of the kernel stack is of an entry from user
// mode.
inline constexpr uint64_t kTraceFromUser = uint64_t{1} << 63;

struct TaskHead {
  char name[32];
  uint32_t id;
  uint32_t pid;      // of the process; 0 for a kernel task
  Process* process;  // nullptr for a kernel task

  // What the store remembers (src/store/current_context.cc); 0 in a new task. The task's own, with
  // interrupts off.
  uint64_t trace_context;  // its context, until exec, as ContextTable::remember() says
  // The caller of the system call or fault under way, as current_context.h says;
  // kTraceFromUser after each return to user mode.
  uint64_t trace_call;

  // The thread that contexts name beside the process: its id; 0 for the first thread of a program,
  // which is named by its process alone, and for a kernel task.
  uint32_t thread_in_context;

  ListNode wait_link;  // lock of the wait queue that the task is on
};
