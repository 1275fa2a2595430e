/* Configuration strings. LP64_OFF64 is the only programming environment of POSIX that this system
 * has: long, pointers and off_t have 64 bits. It needs no compiler flags.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

static const char* value_of(int name) {
  switch (name) {
    case _CS_PATH:
      return "/bin:/usr/bin";
    case _CS_POSIX_V7_WIDTH_RESTRICTED_ENVS:
      return "POSIX_V7_LP64_OFF64";
    case _CS_V7_ENV:
    case _CS_POSIX_V7_LP64_OFF64_CFLAGS:
    case _CS_POSIX_V7_LP64_OFF64_LDFLAGS:
    case _CS_POSIX_V7_LP64_OFF64_LIBS:
    case _CS_LFS_CFLAGS:
    case _CS_LFS_LDFLAGS:
    case _CS_LFS_LIBS:
    case _CS_LFS_LINTFLAGS:
      return "";
    default:
      return NULL;
  }
}

size_t confstr(int name, char* buffer, size_t size) {
  const char* value = value_of(name);
  if (value == NULL) {
    errno = EINVAL;
    return 0;
  }
  if (size > 0) strlcpy(buffer, value, size);
  return strlen(value) + 1;
}
