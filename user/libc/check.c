/* The kernel's numbers and structures must be newlib's: nothing here translates them. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stele.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>

#include "syscall.h"

#define SAME(ours, kernels) _Static_assert((ours) == (kernels), #ours " differs from " #kernels)
#define SAME_ERROR(name, value, message) SAME(name, value);
#define SAME_SIGNAL(name, value) SAME(SIG##name, value);

ABI_ERRNOS(SAME_ERROR)
ABI_SIGNALS(SAME_SIGNAL)
SAME(NSIG, ABI_SIGNAL_COUNT);
SAME(SIG_SETMASK, 0);
SAME(SIG_BLOCK, 1);
SAME(SIG_UNBLOCK, 2);
SAME((long)SIG_DFL, ABI_SIG_DFL);
SAME((long)SIG_IGN, ABI_SIG_IGN);
SAME(SA_NOCLDSTOP, ABI_SA_NOCLDSTOP);
SAME(SA_RESTART, ABI_SA_RESTART);
SAME(SA_NODEFER, ABI_SA_NODEFER);
SAME(sizeof(sigset_t), sizeof(uint64_t));

SAME(O_RDONLY, ABI_O_RDONLY);
SAME(O_WRONLY, ABI_O_WRONLY);
SAME(O_RDWR, ABI_O_RDWR);
SAME(O_APPEND, ABI_O_APPEND);
SAME(O_CREAT, ABI_O_CREAT);
SAME(O_TRUNC, ABI_O_TRUNC);
SAME(O_EXCL, ABI_O_EXCL);
SAME(O_NONBLOCK, ABI_O_NONBLOCK);
SAME(O_NOCTTY, ABI_O_NOCTTY);
SAME(O_CLOEXEC, ABI_O_CLOEXEC);
SAME(O_DIRECTORY, ABI_O_DIRECTORY);

SAME(S_IFMT, ABI_S_IFMT);
SAME(S_IFDIR, ABI_S_IFDIR);
SAME(S_IFCHR, ABI_S_IFCHR);
SAME(S_IFREG, ABI_S_IFREG);
SAME(S_IFIFO, ABI_S_IFIFO);

SAME(sizeof(struct timespec), sizeof(struct abi_timespec));
SAME(offsetof(struct timespec, tv_nsec), offsetof(struct abi_timespec, nsec));
SAME(sizeof(struct utsname), sizeof(struct abi_utsname));
SAME(WNOHANG, ABI_WNOHANG);
SAME(WUNTRACED, ABI_WUNTRACED);

SAME(offsetof(struct dirent, d_reclen), offsetof(struct abi_dirent, length));
SAME(offsetof(struct dirent, d_type), offsetof(struct abi_dirent, type));
SAME(offsetof(struct dirent, d_name), offsetof(struct abi_dirent, name));

SAME(sizeof(struct pollfd), sizeof(struct abi_pollfd));
SAME(offsetof(struct pollfd, revents), offsetof(struct abi_pollfd, revents));
SAME(POLLIN, ABI_POLLIN);
SAME(POLLOUT, ABI_POLLOUT);
SAME(POLLERR, ABI_POLLERR);
SAME(POLLHUP, ABI_POLLHUP);
SAME(POLLNVAL, ABI_POLLNVAL);

SAME(PROT_READ, ABI_PROT_READ);
SAME(PROT_WRITE, ABI_PROT_WRITE);
SAME(PROT_EXEC, ABI_PROT_EXEC);
SAME(MAP_PRIVATE, ABI_MAP_PRIVATE);
SAME(MAP_FIXED, ABI_MAP_FIXED);
SAME(MAP_ANONYMOUS, ABI_MAP_ANONYMOUS);

SAME(NS_REPLACE, ABI_BIND_REPLACE);
SAME(NS_BEFORE, ABI_BIND_BEFORE);
SAME(NS_AFTER, ABI_BIND_AFTER);
SAME(NS_CREATE, ABI_BIND_CREATE);

SAME(sizeof(struct termios), sizeof(struct abi_termios));
SAME(offsetof(struct termios, c_cc), offsetof(struct abi_termios, cc));
SAME(NCCS, ABI_NCCS);
SAME(VINTR, ABI_VINTR);
SAME(VQUIT, ABI_VQUIT);
SAME(VERASE, ABI_VERASE);
SAME(VKILL, ABI_VKILL);
SAME(VEOF, ABI_VEOF);
SAME(VTIME, ABI_VTIME);
SAME(VMIN, ABI_VMIN);
SAME(VSUSP, ABI_VSUSP);
SAME(ICRNL, ABI_ICRNL);
SAME(OPOST, ABI_OPOST);
SAME(ONLCR, ABI_ONLCR);
SAME(ISIG, ABI_ISIG);
SAME(ICANON, ABI_ICANON);
SAME(ECHO, ABI_ECHO);
SAME(ECHOE, ABI_ECHOE);
SAME(VEOL, ABI_VEOL);
SAME(VSTART, ABI_VSTART);
SAME(VSTOP, ABI_VSTOP);
SAME(VLNEXT, ABI_VLNEXT);
SAME(VWERASE, ABI_VWERASE);
SAME(VREPRINT, ABI_VREPRINT);
SAME(VEOL2, ABI_VEOL2);
SAME(ISTRIP, ABI_ISTRIP);
SAME(INLCR, ABI_INLCR);
SAME(IGNCR, ABI_IGNCR);
SAME(IXON, ABI_IXON);
SAME(IXANY, ABI_IXANY);
SAME(OCRNL, ABI_OCRNL);
SAME(CS8, ABI_CS8);
SAME(CREAD, ABI_CREAD);
SAME(B115200, ABI_B115200);
SAME(ECHOK, ABI_ECHOK);
SAME(ECHONL, ABI_ECHONL);
SAME(NOFLSH, ABI_NOFLSH);
SAME(TOSTOP, ABI_TOSTOP);
SAME(ECHOCTL, ABI_ECHOCTL);
SAME(ECHOKE, ABI_ECHOKE);
SAME(IEXTEN, ABI_IEXTEN);
SAME(TCGETS, ABI_TCGETS);
SAME(TCSETS, ABI_TCSETS);
SAME(TCSETSW, ABI_TCSETSW);
SAME(TCSETSF, ABI_TCSETSF);
SAME(TIOCGPGRP, ABI_TCGPGRP);
SAME(TIOCSPGRP, ABI_TCSPGRP);
SAME(TIOCGWINSZ, ABI_TCGWINSZ);
SAME(TIOCSWINSZ, ABI_TCSWINSZ);
SAME(TIOCSCTTY, ABI_TCSCTTY);
SAME(TIOCNOTTY, ABI_TCNOTTY);
SAME(TIOCGSID, ABI_TCGSID);
SAME(TCFLSH, ABI_TCFLSH);
SAME(TCXONC, ABI_TCXONC);
SAME(TIOCGPTN, ABI_TCGPTN);
SAME(TIOCSPTLCK, ABI_TCSPTLCK);
SAME(TCIFLUSH, 0);
SAME(TCIOFLUSH, 2);
SAME(TCOOFF, 0);
SAME(TCION, 3);
SAME(sizeof(struct winsize), sizeof(struct abi_winsize));
