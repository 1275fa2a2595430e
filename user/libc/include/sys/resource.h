/* Limits, usage and priorities of processes. */
#ifndef _SYS_RESOURCE_H_
#define _SYS_RESOURCE_H_
#include <sys/cdefs.h>
#include <sys/time.h>
#include <sys/types.h>

#define RUSAGE_SELF 0
#define RUSAGE_CHILDREN (-1)

/* Times, ru_maxrss (KiB), faults and switches are counted. The others are there for sources that
 * print them, and zero. */
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
#define RLIMIT_STACK 3 /* fixed: 8 MiB */
#define RLIMIT_CORE 4  /* fixed: 0 */
#define RLIMIT_RSS 5   /* fixed: none */
#define RLIMIT_NPROC 6
#define RLIMIT_NOFILE 7
#define RLIMIT_MEMLOCK 8 /* fixed: none */
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
