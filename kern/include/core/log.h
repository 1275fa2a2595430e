/* The kernel log, and the end. C and C++. Any context, any lock held. */
#pragma once

#ifdef __cplusplus
extern "C" {
#endif

/* One line (the newline is added) to the console port, with a time stamp; lines of several CPUs do
 * not mix. */
void klog(const char* pattern, ...) __attribute__((format(printf, 1, 2)));

/* Stops every CPU, prints the message and a symbolic backtrace, and ends QEMU with the status that
 * scripts/guest turns into 134. */
void panic(const char* pattern, ...) __attribute__((format(printf, 1, 2), noreturn, cold));

#ifdef __cplusplus
}
#endif

/* Ends `line`, a buffer of `size` bytes with `length` bytes wanted in it, for the console: what no
 * terminal takes for a command (a program's name may be anything) becomes '?', and a line's end is
 * put behind it. Returns its length. */
#ifdef __cplusplus
#include <cstddef>
size_t log_line(char* line, size_t size, size_t length);
#endif

/* A broken invariant of the kernel; never for input or for want of memory. */
#define ASSERT(condition)                                                                      \
  do {                                                                                         \
    if (__builtin_expect(!(condition), 0)) panic("%s:%d: %s", __FILE__, __LINE__, #condition); \
  } while (0)
