/* Limits, usage and priorities of processes. */
#ifndef _SYS_RESOURCE_H_
#define _SYS_RESOURCE_H_
#include <sys/cdefs.h>
#include <sys/time.h>
#include <sys/types.h>

#define RUSAGE_SELF 0
#define RUSAGE_CHILDREN (-1)

/* The kernel counts times, ru_maxrss (KiB), page faults and context switches. The other fields are
 * always zero; they exist because some programs print them. */
struct rusage {
  struct timeval ru_utime, ru_stime;
  long ru_maxrss, ru_ixrss, ru_idrss, ru_isrss, ru_minflt, ru_majflt, ru_nswap, ru_inblock,
      ru_oublock;
  long ru_msgsnd, ru_msgrcv, ru_nsignals, ru_nvcsw, ru_nivcsw;
};

typedef unsigned long rlim_t;
struct rlimit {
  rlim_t rlim_cur, rlim_max;
};
#define RLIM_INFINITY (~0UL)
#define RLIM_SAVED_CUR RLIM_INFINITY
#define RLIM_SAVED_MAX RLIM_INFINITY
#define RLIMIT_CPU 0
#define RLIMIT_FSIZE 1
#define RLIMIT_DATA 2
#define RLIMIT_STACK 3 /* always 8 MiB */
#define RLIMIT_CORE 4  /* always 0 */
#define RLIMIT_RSS 5   /* always unlimited */
#define RLIMIT_NPROC 6
#define RLIMIT_NOFILE 7
#define RLIMIT_MEMLOCK 8 /* always unlimited */
#define RLIMIT_AS 9
#define RLIM_NLIMITS 10

#define PRIO_PROCESS 0
#define PRIO_PGRP 1
#define PRIO_USER 2
#define PRIO_MIN (-20)
#define PRIO_MAX 20

__BEGIN_DECLS
int getpriority(int, id_t);
int setpriority(int, id_t, int);
int getrusage(int, struct rusage*);
int getrlimit(int, struct rlimit*);
int setrlimit(int, const struct rlimit*);
__END_DECLS
#endif
