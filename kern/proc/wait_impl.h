#pragma once

#include <cstdint>

#include "lib/result.h"
#include "proc/process_impl.h"

// Selects children: with ABI_P_ALL all children, with ABI_P_PID the child with the pid `id`, with
// ABI_P_PGID the children in the process group `id`.
struct ChildChoice {
  int which = ABI_P_ALL;
  uint32_t id = 0;
};
struct WaitResult {
  uint32_t pid;  // 0: nothing has happened yet (ABI_WNOHANG)
  int status;    // as wait4 gives it
  SignalInfo info;
  Usage usage;  // usage of the child and of the children that it has waited for
};
// Waits until a child of the current process has ended (ABI_WEXITED), stopped (ABI_WUNTRACED) or
// continued (ABI_WCONTINUED). Reaps a child that has ended. Each change is reported once. With
// ABI_WNOWAIT, no child is reaped and the change can be reported again. ECHILD, EINTR.
Result<WaitResult> process_wait(const ChildChoice& choice, uint32_t options);
