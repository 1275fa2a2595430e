#ifndef _STELE_PATHS_H
#define _STELE_PATHS_H
#include_next <paths.h>

#define _PATH_DEFPATH "/bin:/usr/bin"
#define _PATH_STDPATH "/bin:/usr/bin"
#define _PATH_CONSOLE "/dev/cons"
#define _PATH_TTY "/dev/tty"
#define _PATH_TMP "/tmp/"
#define _PATH_VARTMP "/tmp/"
#endif
