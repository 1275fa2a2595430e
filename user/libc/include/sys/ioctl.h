#ifndef _SYS_IOCTL_H
#define _SYS_IOCTL_H
#include <sys/cdefs.h>
#include <sys/termios.h>

/* kern/abi/syscall.h has the numbers: ABI_TC*. */
#define TIOCGPGRP 5
#define TIOCSPGRP 6
#define TIOCGWINSZ 7

__BEGIN_DECLS
int ioctl(int, int, ...);
__END_DECLS
#endif
