/* True if the process has only ever had one thread: code that counts references may then avoid the
 * cost of atomic operations. */
#ifndef _SYS_SINGLE_THREADED_H
#define _SYS_SINGLE_THREADED_H

#ifdef __cplusplus
extern "C" {
#endif
extern char __libc_single_threaded;
#ifdef __cplusplus
}
#endif
#endif
