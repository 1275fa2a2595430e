#pragma once

#include <cstdint>

#include "lib/result.h"
#include "proc/process_impl.h"

// Selects children: ABI_P_*.
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
// Waits for a child of the current process that has ended (ABI_WEXITED; it is reaped), stopped
// (ABI_WUNTRACED) or continued (ABI_WCONTINUED). Each change is reported once; with ABI_WNOWAIT it
// can be reported again. ECHILD, EINTR.
Result<WaitResult> process_wait(const ChildChoice& choice, uint32_t options);
