#ifndef _ERR_H
#define _ERR_H
#include <stdarg.h>
#include <sys/cdefs.h>

__BEGIN_DECLS
void err(int, const char*, ...) __attribute__((noreturn, format(printf, 2, 3)));
void errx(int, const char*, ...) __attribute__((noreturn, format(printf, 2, 3)));
void verr(int, const char*, va_list) __attribute__((noreturn, format(printf, 2, 0)));
void verrx(int, const char*, va_list) __attribute__((noreturn, format(printf, 2, 0)));
void warn(const char*, ...) __attribute__((format(printf, 1, 2)));
void warnx(const char*, ...) __attribute__((format(printf, 1, 2)));
void vwarn(const char*, va_list) __attribute__((format(printf, 1, 0)));
void vwarnx(const char*, va_list) __attribute__((format(printf, 1, 0)));
__END_DECLS
#endif
