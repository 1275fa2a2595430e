/* Random bytes of the kernel, which never wait. One call gives at most 256. */
#include <errno.h>
#include <limits.h>
#include <sys/random.h>
#include <unistd.h>

ssize_t getrandom(void* buffer, size_t size, unsigned flags) {
  if (flags & ~(unsigned)(GRND_NONBLOCK | GRND_RANDOM | GRND_INSECURE)) {
    errno = EINVAL;
    return -1;
  }
  if (size > SSIZE_MAX) size = SSIZE_MAX;
  size_t done = 0;
  while (done < size) {
    size_t part = size - done < 256 ? size - done : 256;
    if (getentropy((char*)buffer + done, part) < 0) return done > 0 ? (ssize_t)done : -1;
    done += part;
  }
  return (ssize_t)done;
}
