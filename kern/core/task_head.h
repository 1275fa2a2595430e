// The head of every Task (sched/task.h): the part that the layers below the scheduler use.
#pragma once

#include <cstdint>

#include "lib/list.h"

struct Process;

// The caller of a system call or fault, that is, its user stack. Any other value has the stack's
// number and perhaps kStackTruncated (intern/stack_table.h).
enum class TraceCaller : uint64_t {
  kNone = 0,                                     // not in user mode yet, or not since exec
  kUnknown = uint64_t{1} << 63,                  // the user stack has not been looked up
  kLost = uint64_t{1} << 63 | uint64_t{1} << 62  // the user stack could not be stored
};

struct TaskHead {
  char name[32];
  uint32_t id;
  uint32_t pid;      // PID of the process; 0 for a kernel task
  Process* process;  // nullptr for a kernel task

  // The tracer caches two values in each task (intern/current_context.cc). Both are 0 in a new
  // task. Only the task itself writes these two fields, with interrupts off.
  uint64_t trace_context;  // the task's context, valid until exec; from ContextTable::remember()
  // The caller of the system call or fault under way. Each return to user mode stores kUnknown.
  TraceCaller trace_call;

  // The thread id that the task's context records. 0 for a kernel task. Also 0 for the first thread
  // of a program, because its context names only the process.
  uint32_t thread_in_context;

  ListNode wait_link;  // guarded by the lock of the wait queue that the task is on
};
