/* err.h: "program: message: error" on standard error. */
#include <err.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void message(int error, const char* format, va_list arguments) {
  fprintf(stderr, "%s: ", program_invocation_short_name);
  if (format != NULL) vfprintf(stderr, format, arguments);
  if (error >= 0) fprintf(stderr, "%s%s", format != NULL ? ": " : "", strerror(error));
  fputc('\n', stderr);
}

void vwarn(const char* format, va_list arguments) {
  message(errno, format, arguments);
}
void vwarnx(const char* format, va_list arguments) {
  message(-1, format, arguments);
}

void warn(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vwarn(format, arguments);
  va_end(arguments);
}

void warnx(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vwarnx(format, arguments);
  va_end(arguments);
}

void verr(int status, const char* format, va_list arguments) {
  vwarn(format, arguments);
  exit(status);
}
void verrx(int status, const char* format, va_list arguments) {
  vwarnx(format, arguments);
  exit(status);
}

void err(int status, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  verr(status, format, arguments);
}

void errx(int status, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  verrx(status, format, arguments);
}
