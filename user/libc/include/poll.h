#ifndef _POLL_H
#define _POLL_H
#include <sys/_sigset.h>
#include <sys/_timespec.h>
#include <sys/cdefs.h>
#include <sys/types.h>

#ifndef _SIGSET_T_DECLARED
#define _SIGSET_T_DECLARED
typedef __sigset_t sigset_t;
#endif

typedef unsigned nfds_t;
struct pollfd {
  int fd;
  short events, revents;
};
#define POLLIN 0x1
#define POLLPRI 0x2 /* never happens, like POLLRDBAND and POLLWRBAND */
#define POLLOUT 0x4
#define POLLERR 0x8
#define POLLHUP 0x10
#define POLLNVAL 0x20
#define POLLRDNORM 0x40
#define POLLRDBAND 0x80
#define POLLWRNORM 0x100
#define POLLWRBAND 0x200

__BEGIN_DECLS
int poll(struct pollfd*, nfds_t, int);
int ppoll(struct pollfd*, nfds_t, const struct timespec*, const sigset_t*);
__END_DECLS
#endif
