// Error strings, after Plan 9. An error string accompanies the error number, and says why a call
// failed and what would have been valid.
#pragma once

#include "lib/result.h"

// Sets the current task's error string (truncated to ABI_ERRSTR_MAX bytes) and returns `error`:
//   return fail(Errno::EINVAL, "%s: no such cache", name);
// In interrupt context fail() sets no string. Each system call begins with an empty string.
Errno fail(Errno error, const char* pattern, ...) __attribute__((format(printf, 2, 3), cold));
// The string that the last fail() in this task set. Before there are tasks, all callers share one
// string.
const char* error_string();
