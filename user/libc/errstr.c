/* Error strings: why the last failed call failed, in the kernel's own words (after Plan 9's
 * errstr).
 *
 * The kernel clears the string at the start of the next system call, so the library fetches it
 * right after a call fails, and stores it with the error number. strerror and perror append the
 * error string to the message of the stored error number, so that unchanged programs print the
 * reason too. Each thread has its own string.
 */
#include <errno.h>
#include <stele.h>
#include <string.h>

#include "syscall.h"
#include "thread.h"

_Static_assert(ERROR_TEXT_MAX == ABI_ERRSTR_MAX, "a thread has room for the kernel's");

long __stele_result(long result) {
  if (result < -4095 || result >= 0) return result;
  SELF(last_error) = (int)-result;
  char* text = thread_self()->last_text;
  if (stele_call(ABI_SYS_errstr, (long)text, ERROR_TEXT_MAX, 0, 0, 0, 0) < 0) text[0] = '\0';
  errno = (int)-result;
  return -1;
}

long __stele_fail(int error, const char* why) {
  SELF(last_error) = error;
  strlcpy(thread_self()->last_text, why, ERROR_TEXT_MAX);
  errno = error;
  return -1;
}

const char* errstr(void) {
  return thread_self()->last_text;
}

/* Some of newlib's messages are from the seventies, when the same numbers had other meanings. */
static char* todays_message(int error, char* message) {
  switch (error) {
    case EPERM:
      return "Operation not permitted";
    case EAGAIN:
      return "Resource temporarily unavailable";
    case ENOMEM:
      return "Out of memory";
    case ENOTTY:
      return "Not a terminal";
    case EXDEV:
      return "Not on the same device";
    case ETIMEDOUT:
      return "Timed out";
    case ENOSYS:
      return "Not implemented";
    default:
      return message;
  }
}

/* Called at the end of newlib's strerror (newlib/edits). Returns newlib's message, with the
 * error string if the last failed call of this thread had this error. The result is valid until the
 * thread's next call that appends an error string. */
char* __stele_explain(int error, char* message) {
  static __thread char buffer[ABI_ERRSTR_MAX + 64];
  const char* last = thread_self()->last_text;
  message = todays_message(error, message);
  if (error != SELF(last_error) || last[0] == '\0') return message;
  strlcpy(buffer, message, sizeof buffer);
  strlcat(buffer, ": ", sizeof buffer);
  strlcat(buffer, last, sizeof buffer);
  return buffer;
}
