#pragma once

#include <cstdint>

#include "lib/result.h"

struct WaitResult {
  uint32_t pid;  // 0: nothing has happened yet (ABI_WNOHANG)
  int status;
  uint64_t user_ticks, system_ticks;  // of the child and those that it has waited for
};
// For a child of the current process that has ended (which is gone afterwards) or, with
// ABI_WUNTRACED, stopped. `pid` as in wait4. ECHILD, EINTR.
Result<WaitResult> process_wait(int32_t pid, uint32_t options);
