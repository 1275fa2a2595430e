/* For random: the library's own lock, which the child of a fork finds (user/libc/fork.c). */
#include <sys/lock.h>

__LOCK_INIT(static, stele_lock);
#define LOCK(lock) __stele_lock(&stele_lock)
#define UNLOCK(lock) __stele_unlock(&stele_lock)
