/* What this system has beyond POSIX. */
#ifndef _STELE_H
#define _STELE_H

#ifdef __cplusplus
extern "C" {
#endif

/* Why the last call that failed did so, in the kernel's words; "" if it did not say. At most 127
 * bytes, valid until the next call that fails. strerror() and perror() append it by themselves. */
const char* errstr(void);

/* Makes `source` (a path, or a device as "#name") visible at the existing path `target`: NS_*
 * flags. */
int ns_bind(const char* source, const char* target, int flags);
/* Undoes what was bound at `target`. */
int ns_unmount(const char* target);

#define NS_REPLACE 0 /* instead of what was there */
#define NS_BEFORE 1  /* searched before it */
#define NS_AFTER 2   /* searched after it */
#define NS_CREATE 4  /* new files are made in this part */

#ifdef __cplusplus
}
#endif
#endif
