/* The properties of the system. <sys/features.h> includes this header, so every header has these
 * macros. */
#ifndef _MACHINE__STELE_H
#define _MACHINE__STELE_H

/* Each thread has its own errno and state (user/libc/tls.c). */
#define __DYNAMIC_REENT__
#define __FILENAME_MAX__ 1024
#define _READ_WRITE_RETURN_TYPE _ssize_t
#define _READ_WRITE_BUFSIZE_TYPE size_t

/* Processes with threads and job control, and POSIX clocks. */
#define _POSIX_JOB_CONTROL 1
#define _POSIX_SAVED_IDS 1
#define _POSIX_VERSION 200809L
#define _POSIX2_VERSION 200809L
#define _POSIX_FSYNC 1
#define _POSIX_TIMERS 1
#define _POSIX_MONOTONIC_CLOCK 200112L
#define _POSIX_NO_TRUNC 1
#define _POSIX_VDISABLE '\0'
#define _POSIX_THREADS 200809L
#define _POSIX_THREAD_ATTR_STACKADDR 200809L
#define _POSIX_THREAD_ATTR_STACKSIZE 200809L
#define _POSIX_THREAD_PROCESS_SHARED 200809L
#define _POSIX_THREAD_SAFE_FUNCTIONS 200809L
#define _POSIX_PRIORITY_SCHEDULING 200809L
#define _POSIX_TIMEOUTS 200809L
#define _POSIX_BARRIERS 200809L
#define _POSIX_READER_WRITER_LOCKS 200809L
#define _POSIX_SEMAPHORES 200809L
#define _POSIX_SPIN_LOCKS 200809L

#endif
