/* Waiting for any of several descriptors: poll, and select built on it. */
#include <errno.h>
#include <poll.h>
#include <sys/select.h>
#include <sys/time.h>

#include "cancel.h"

int ppoll(struct pollfd* fds, nfds_t count, const struct timespec* timeout, const sigset_t* mask) {
  const sigset_t others = mask != NULL ? *mask & ~CANCEL_MASK : 0;
  return (int)CANCELLABLE4(poll, fds, count, timeout, mask != NULL ? &others : NULL);
}

int poll(struct pollfd* fds, nfds_t count, int milliseconds) {
  struct timespec timeout = {.tv_sec = milliseconds / 1000,
                             .tv_nsec = (long)(milliseconds % 1000) * 1000000};
  return ppoll(fds, count, milliseconds < 0 ? NULL : &timeout, NULL);
}

int pselect(int count, fd_set* reading, fd_set* writing, fd_set* exceptions,
            const struct timespec* timeout, const sigset_t* mask) {
  struct pollfd fds[FD_SETSIZE];
  nfds_t used = 0;
  if (count < 0 || count > FD_SETSIZE) {
    errno = EINVAL;
    return -1;
  }
  for (int fd = 0; fd < count; fd++) {
    short events = 0;
    int wanted = 0;
    if (reading != NULL && FD_ISSET(fd, reading)) wanted = 1, events |= POLLIN;
    if (writing != NULL && FD_ISSET(fd, writing)) wanted = 1, events |= POLLOUT;
    if (exceptions != NULL && FD_ISSET(fd, exceptions)) wanted = 1;
    if (wanted) fds[used++] = (struct pollfd){.fd = fd, .events = events};
  }
  if (ppoll(fds, used, timeout, mask) < 0) return -1;
  for (nfds_t i = 0; i < used; i++) {
    if (!(fds[i].revents & POLLNVAL)) continue;
    errno = EBADF;
    return -1;
  }
  if (reading != NULL) FD_ZERO(reading);
  if (writing != NULL) FD_ZERO(writing);
  if (exceptions != NULL) FD_ZERO(exceptions); /* no descriptor has exceptional conditions */
  int bits = 0;
  for (nfds_t i = 0; i < used; i++) {
    if ((fds[i].events & POLLIN) && (fds[i].revents & (POLLIN | POLLHUP | POLLERR))) {
      FD_SET(fds[i].fd, reading);
      bits++;
    }
    if ((fds[i].events & POLLOUT) && (fds[i].revents & (POLLOUT | POLLERR))) {
      FD_SET(fds[i].fd, writing);
      bits++;
    }
  }
  return bits;
}

int select(int count, fd_set* reading, fd_set* writing, fd_set* exceptions,
           struct timeval* timeout) {
  struct timespec time;
  if (timeout != NULL) {
    if (timeout->tv_usec < 0 || timeout->tv_usec >= 1000000) {
      errno = EINVAL;
      return -1;
    }
    time = (struct timespec){.tv_sec = timeout->tv_sec, .tv_nsec = timeout->tv_usec * 1000};
  }
  return pselect(count, reading, writing, exceptions, timeout != NULL ? &time : NULL, NULL);
}
