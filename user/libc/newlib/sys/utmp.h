/* There is no record of logins; the type exists for sources that name it. */
#ifndef _SYS_UTMP_H
#define _SYS_UTMP_H
#include <sys/types.h>

struct utmp {
  short ut_type;
  pid_t ut_pid;
  char ut_line[32];
  char ut_id[4];
  char ut_user[32];
  char ut_host[64];
  time_t ut_time;
};
#endif
