// printf-style formatting without allocation. C and C++. Any context.
#pragma once

#include <stdarg.h>
#ifdef __cplusplus
#include <cstddef>
extern "C" {
#else
#include <stddef.h>
#endif

// The supported conversions, as in C, are d i u o x X p c s %, with the flags 0 - +, a width, a
// precision (either may be *), and the sizes l ll z t j h hh. Writes at most `size` bytes including
// the NUL; returns the length of the whole text.
int format(char* buffer, size_t size, const char* pattern, ...)
    __attribute__((format(printf, 3, 4)));
int vformat(char* buffer, size_t size, const char* pattern, va_list arguments)
    __attribute__((format(printf, 3, 0)));

#ifdef __cplusplus
}
#endif
