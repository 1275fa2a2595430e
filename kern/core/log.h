/* The kernel log, and panic. C and C++. Any context, any lock held. */
#pragma once

#ifdef __cplusplus
extern "C" {
#endif

/* Prints one line (the newline is added) to the console port, with a time stamp. Lines of several
 * CPUs do not mix if each has at most 256 bytes. A line longer than 352 bytes is cut. */
void klog(const char* pattern, ...) __attribute__((format(printf, 1, 2)));

/* Stops every CPU, prints the message and a symbolic backtrace, and ends QEMU with the status that
 * scripts/guest turns into 134. */
void panic(const char* pattern, ...) __attribute__((format(printf, 1, 2), noreturn, cold));

#ifdef __cplusplus
}
#endif

/* Turns the text in `line` into a line for the console. `line` is a buffer of `size` bytes.
 * `length` is the length of the whole text; if the text did not fit, the buffer holds only its
 * beginning. Replaces all bytes except printable ASCII characters and tabs by '?', because a
 * program's name may contain any byte. Appends the line end. Returns the length of the line. */
#ifdef __cplusplus
#include <cstddef>
size_t log_line(char* line, size_t size, size_t length);
#endif

/* Panics on a broken invariant of the kernel; never for input or for lack of memory. */
#define ASSERT(condition)                                                                      \
  do {                                                                                         \
    if (__builtin_expect(!(condition), 0)) panic("%s:%d: %s", __FILE__, __LINE__, #condition); \
  } while (0)
