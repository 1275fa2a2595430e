// Error strings, after Plan 9: they accompany the error number and say why a call failed and what
// would have been valid.
#pragma once

#include "lib/result.h"

// Sets the current task's error string (truncated to ABI_ERRSTR_MAX bytes) and returns `error`:
//   return fail(Errno::EINVAL, "%s: no such cache", name);
// In interrupt context fail() only returns the error. Each system call begins with an empty string.
Errno fail(Errno error, const char* pattern, ...) __attribute__((format(printf, 2, 3), cold));
// The string of the last fail() in this task; at boot, before there are tasks, the string of the
// last fail().
const char* error_string();
