/* The C library's system calls. Internal to user/libc. */
#pragma once

#include <errno.h>

#include "abi/errno.h"
#include "abi/syscall.h"
#include "include/stele.h"

/* Converts the kernel's result of a system call to the C library's: a failure becomes -1, with
 * errno set and the kernel's error string stored for errstr() (errstr.c). */
long __stele_result(long result);

#define SYSCALL(name, ...) __stele_result(STELE_CALL(name __VA_OPT__(, ) __VA_ARGS__))

/* Sets errno and the error string `why`, and returns -1, for functions that fail without a system
 * call. */
long __stele_fail(int error, const char* why);

struct rusage;
/* Converts the kernel's resource usage to POSIX's. */
void __stele_rusage(struct rusage* to, const struct abi_rusage* from);
