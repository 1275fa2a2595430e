/* ulimit, the predecessor of getrlimit. Its only limit is the size of a file, in blocks of 512
 * bytes. */
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <sys/resource.h>
#include <ulimit.h>

long ulimit(int command, ...) {
  struct rlimit limit;
  if (command != UL_GETFSIZE && command != UL_SETFSIZE) {
    errno = EINVAL;
    return -1;
  }
  if (getrlimit(RLIMIT_FSIZE, &limit) < 0) return -1;
  if (command == UL_SETFSIZE) {
    va_list arguments;
    va_start(arguments, command);
    long blocks = va_arg(arguments, long);
    va_end(arguments);
    limit.rlim_cur = limit.rlim_max = (rlim_t)blocks * 512;
    return setrlimit(RLIMIT_FSIZE, &limit) < 0 ? -1 : blocks;
  }
  return limit.rlim_cur / 512 > LONG_MAX ? LONG_MAX : (long)(limit.rlim_cur / 512);
}
