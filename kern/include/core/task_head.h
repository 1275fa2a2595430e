// The head of every Task (sched/task.h): the part that the layers below the scheduler use.
#pragma once

#include <cstdint>

#include "lib/list.h"

struct Process;

// Flag in TaskHead::trace_call: the trap frame at the top of the kernel stack belongs to an entry
// from user mode.
inline constexpr uint64_t kTraceFromUser = uint64_t{1} << 63;

struct TaskHead {
  char name[32];
  uint32_t id;
  uint32_t pid;      // PID of the process; 0 for a kernel task
  Process* process;  // nullptr for a kernel task

  // Cached by the store (src/store/current_context.cc); 0 in a new task. Only the task itself uses
  // these two fields, with interrupts off.
  uint64_t trace_context;  // cached context of the task, until exec; see ContextTable::remember()
  // The user-mode caller of the system call or fault under way (see current_context.h);
  // kTraceFromUser after each return to user mode.
  uint64_t trace_call;

  // The id of the thread for contexts; 0 for the first thread of a program, whose context has the
  // process only, and for a kernel task.
  uint32_t thread_in_context;

  ListNode wait_link;  // guarded by the lock of the wait queue that the task is on
};
