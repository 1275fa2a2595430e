/* Random bytes from the kernel, by calls of getentropy for up to 256 bytes each. getrandom never
 * blocks. */
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
