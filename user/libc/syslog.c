/* System messages. No program collects them, so they go to standard error, in one write each, as
 * "program[process]: message". The mask of priorities works as on other systems.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <syslog.h>
#include <unistd.h>

static const char* identity; /* NULL: the program's name */
static int options;
static int mask = LOG_UPTO(LOG_DEBUG);

void openlog(const char* name, int flags, int facility) {
  (void)facility;
  identity = name;
  options = flags;
}

void closelog(void) {
  identity = NULL;
  options = 0;
}

int setlogmask(int new_mask) {
  int old = mask;
  if (new_mask != 0) mask = new_mask;
  return old;
}

/* Copies `format` to `to`, with each %m replaced by the message of `error`. The copy is cut off
 * after `room` - 1 bytes. */
static void with_error(char* to, size_t room, const char* format, int error) {
  size_t length = 0;
  for (; *format != '\0' && length + 1 < room; format++) {
    if (format[0] != '%') {
      to[length++] = *format;
    } else if (format[1] == 'm') {
      /* Doubles a percent sign in the message, so that it is no conversion. */
      for (const char* word = strerror(error); *word != '\0' && length + 2 < room; word++) {
        if (*word == '%') to[length++] = '%';
        to[length++] = *word;
      }
      format++;
    } else if (format[1] != '\0' && length + 2 < room) {
      to[length++] = *format++;
      to[length++] = *format;
    }
  }
  to[length] = '\0';
}

void vsyslog(int priority, const char* format, va_list arguments) {
  int error = errno;
  if (!(mask & LOG_MASK(LOG_PRI(priority)))) return;
  char full_format[1024], line[2048];
  with_error(full_format, sizeof full_format, format, error);
  const char* name = identity != NULL ? identity : program_invocation_short_name;
  int length = options & LOG_PID ? snprintf(line, 256, "%s[%d]: ", name, (int)getpid())
                                 : snprintf(line, 256, "%s: ", name);
  if (length > 255) length = 255;
  int more = vsnprintf(line + length, sizeof line - (size_t)length - 1, full_format, arguments);
  if (more > 0) length += more;
  if (length > (int)sizeof line - 2) length = (int)sizeof line - 2;
  if (line[length - 1] != '\n') line[length++] = '\n';
  write(STDERR_FILENO, line, (size_t)length);
  errno = error;
}

void syslog(int priority, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsyslog(priority, format, arguments);
  va_end(arguments);
}
