/* This system's extensions to POSIX. */
#ifndef _STELE_H
#define _STELE_H

#ifdef __cplusplus
extern "C" {
#endif

/* Returns the kernel's reason for the last failed system call of this thread, at most 127 bytes; ""
 * if the kernel gave no reason. The string is valid until the thread's next system call that fails.
 * strerror() and perror() append the string to the message of that call's error number. */
const char* errstr(void);

/* Binds `source` (a path, or a device as "#name") to the existing path `target`. Flags: NS_*. */
int ns_bind(const char* source, const char* target, int flags);
/* Undoes the binds at `target`. */
int ns_unmount(const char* target);

#define NS_REPLACE 0 /* `source` hides the files of `target` */
#define NS_BEFORE 1  /* `source` is searched before the files of `target` */
#define NS_AFTER 2   /* `source` is searched after the files of `target` */
#define NS_CREATE 4  /* files created in `target` go into `source` */

/* Makes a system call (abi/syscall.h) and returns the kernel's result: a failure is a negated error
 * number. Does not change errno, and accesses no other global or thread-local variable. */
static inline long stele_call(long number, long a, long b, long c, long d, long e, long f) {
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
/* Makes the system call ABI_SYS_`name` with up to six arguments, numbers or pointers, and returns
 * the kernel's result as stele_call does. Include abi/syscall.h first. */
#define STELE_CALL(name, ...) \
  STELE_CALL_FILLED(ABI_SYS_##name __VA_OPT__(, ) __VA_ARGS__, 0, 0, 0, 0, 0, 0, 0)
#define STELE_CALL_FILLED(number, a, b, c, d, e, f, ...) \
  stele_call(number, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f))

#ifdef __cplusplus
}
#endif
#endif
