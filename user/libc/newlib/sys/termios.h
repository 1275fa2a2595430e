/* Terminals. The bits that kern/abi/syscall.h defines have an effect; the others are only stored.
 */
#ifndef _SYS_TERMIOS_H
#define _SYS_TERMIOS_H
#include <sys/cdefs.h>
#include <sys/types.h>

typedef unsigned char cc_t;
typedef unsigned int speed_t;
typedef unsigned int tcflag_t;

#define NCCS 20
struct termios {
  tcflag_t c_iflag, c_oflag, c_cflag, c_lflag;
  cc_t c_cc[NCCS];
};

struct winsize {
  unsigned short ws_row, ws_col, ws_xpixel, ws_ypixel;
};

#define VINTR 0
#define VQUIT 1
#define VERASE 2
#define VKILL 3
#define VEOF 4
#define VTIME 5
#define VMIN 6
#define VSUSP 7
#define VEOL 8
#define VSTART 9
#define VSTOP 10

#define IGNBRK 0x001
#define BRKINT 0x002
#define IGNPAR 0x004
#define PARMRK 0x008
#define INPCK 0x010
#define ISTRIP 0x020
#define INLCR 0x040
#define IGNCR 0x080
#define ICRNL 0x100
#define IXON 0x400
#define IXANY 0x800
#define IXOFF 0x1000

#define OPOST 0x1
#define ONLCR 0x4
#define OCRNL 0x8

#define CSIZE 0x30
#define CS5 0x00
#define CS6 0x10
#define CS7 0x20
#define CS8 0x30
#define CSTOPB 0x40
#define CREAD 0x80
#define PARENB 0x100
#define PARODD 0x200
#define HUPCL 0x400
#define CLOCAL 0x800

#define ISIG 0x1
#define ICANON 0x2
#define ECHO 0x8
#define ECHOE 0x10
#define ECHOK 0x20
#define ECHONL 0x40
#define NOFLSH 0x80
#define TOSTOP 0x100
#define IEXTEN 0x8000

#define TCSANOW 0
#define TCSADRAIN 1
#define TCSAFLUSH 2
#define TCIFLUSH 0
#define TCOFLUSH 1
#define TCIOFLUSH 2
#define TCOOFF 0
#define TCOON 1
#define TCIOFF 2
#define TCION 3

#define B0 0
#define B9600 13
#define B38400 15
#define B115200 4098

__BEGIN_DECLS
int tcgetattr(int, struct termios*);
int tcsetattr(int, int, const struct termios*);
int tcsendbreak(int, int);
int tcdrain(int);
int tcflush(int, int);
int tcflow(int, int);
int tcgetwinsize(int, struct winsize*);
speed_t cfgetispeed(const struct termios*);
speed_t cfgetospeed(const struct termios*);
int cfsetispeed(struct termios*, speed_t);
int cfsetospeed(struct termios*, speed_t);
void cfmakeraw(struct termios*);
__END_DECLS
#endif
