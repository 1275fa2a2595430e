// Error strings: beside the error number, why a call failed and what would have been right (after
// Plan 9).
#pragma once

#include "lib/result.h"

// Sets the current task's error string (at most ABI_ERRSTR_MAX bytes, cut) and returns `error`:
//   return fail(Errno::EINVAL, "%s: no such cache", name);
// In interrupt context only the error is returned. The string is cleared at the start of each
// system call.
Errno fail(Errno error, const char* pattern, ...) __attribute__((format(printf, 2, 3), cold));
// What the last fail() in this task said; at boot, before there are tasks, the last of all.
const char* error_string();
