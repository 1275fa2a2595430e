/* Terminals: adds to user/libc/newlib/sys/termios.h. */
#ifndef _STELE_SYS_TERMIOS_H
#define _STELE_SYS_TERMIOS_H
#include_next <sys/termios.h>

#define VLNEXT 11
#define VWERASE 12
#define VREPRINT 13
#define VEOL2 14
#define _POSIX_VDISABLE 0

#define ECHOCTL 0x200
#define ECHOKE 0x800

/* Line speeds in c_cflag, which are stored but have no effect. */
#define CBAUD 0x100f
#define B50 1
#define B75 2
#define B110 3
#define B134 4
#define B150 5
#define B200 6
#define B300 7
#define B600 8
#define B1200 9
#define B1800 10
#define B2400 11
#define B4800 12
#define B19200 14
#define B57600 4097
#define B230400 4099
#define B460800 4100
#define B921600 4103

__BEGIN_DECLS
pid_t tcgetsid(int);
int tcsetwinsize(int, const struct winsize*);
int cfsetspeed(struct termios*, speed_t);
__END_DECLS
#endif
