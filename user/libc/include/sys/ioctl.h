#ifndef _SYS_IOCTL_H
#define _SYS_IOCTL_H
#include <sys/cdefs.h>
#include <sys/termios.h>

/* kern/abi/syscall.h has the numbers: ABI_TC*. */
#define TCGETS 1
#define TCSETS 2
#define TCSETSW 3
#define TCSETSF 4
#define TIOCGPGRP 5
#define TIOCSPGRP 6
#define TIOCGWINSZ 7
#define TIOCSWINSZ 8
#define TIOCSCTTY 9
#define TIOCNOTTY 10
#define TIOCGSID 11
#define TCFLSH 12
#define TCXONC 13
#define TIOCGPTN 15
#define TIOCSPTLCK 16

__BEGIN_DECLS
int ioctl(int, int, ...);
__END_DECLS
#endif
