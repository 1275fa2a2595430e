/* How the C library calls the kernel. Internal to user/libc. */
#pragma once

#include <errno.h>

#include "abi/errno.h"
#include "abi/syscall.h"

static inline long syscall6(long number, long a, long b, long c, long d, long e, long f) {
  long result;
  register long r10 __asm__("r10") = d;
  register long r8 __asm__("r8") = e;
  register long r9 __asm__("r9") = f;
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                   : "rcx", "r11", "memory");
  return result;
}

/* The result of a call, or -1 with errno and the kernel's error string kept (errstr.c). */
long __stele_result(long result);

#define SYSCALL6(name, a, b, c, d, e, f) \
  __stele_result(                        \
      syscall6(ABI_SYS_##name, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f)))
#define SYSCALL4(name, a, b, c, d) SYSCALL6(name, a, b, c, d, 0, 0)
#define SYSCALL3(name, a, b, c) SYSCALL6(name, a, b, c, 0, 0, 0)
#define SYSCALL2(name, a, b) SYSCALL6(name, a, b, 0, 0, 0, 0)
#define SYSCALL1(name, a) SYSCALL6(name, a, 0, 0, 0, 0, 0)
#define SYSCALL0(name) SYSCALL6(name, 0, 0, 0, 0, 0, 0)

/* Fails as the kernel would, for what it has no call for. */
long __stele_fail(int error, const char* why);

struct rusage;
/* What the kernel says a process has used, as POSIX gives it. */
void __stele_rusage(struct rusage* to, const struct abi_rusage* from);
