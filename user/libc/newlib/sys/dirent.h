/* Directory streams. user/libc/dirent.c copies entries from struct abi_dirent of
 * kern/abi/syscall.h. */
#ifndef _SYS_DIRENT_H
#define _SYS_DIRENT_H
#include <sys/types.h>

#define NAME_MAX_DIRENT 255

struct dirent {
  ino_t d_ino;
  unsigned short d_reclen; /* bytes */
  unsigned char d_type;    /* DT_* */
  char d_name[NAME_MAX_DIRENT + 1];
};

typedef struct __dirstream DIR;

#define DT_UNKNOWN 0
#define DT_FIFO 1
#define DT_CHR 2
#define DT_DIR 4
#define DT_BLK 6
#define DT_REG 8
#define DT_LNK 10
#define DT_SOCK 12
#define DT_WHT 14
#define DTTOIF(type) ((type) << 12)
#define IFTODT(mode) (((mode)&0170000) >> 12)
#endif
