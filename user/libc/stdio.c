/* What streams want of the rest of the library: locks that a caller holds over several calls, the
 * end of a program, and calls that are no cancellation points.
 *
 * A stream is locked by the same macros in newlib's own functions. Those may be left neither by a
 * cancellation, with the lock held, so reading, writing, opening and closing for a stream cannot be
 * cancelled.
 */
#include <stdio.h>

#include <reent.h>
#include <stdarg.h>
#include <sys/single_threaded.h>
#include <sys/stdio.h>

#include "syscall.h"

void flockfile(FILE* stream) {
  _flockfile(stream);
}
int ftrylockfile(FILE* stream) {
  return stream->_flags & __SSTR || __lock_try_acquire_recursive(stream->_lock) ? 0 : -1;
}
void funlockfile(FILE* stream) {
  _funlockfile(stream);
}

/* Called for each stream when the program ends (newlib/newlib.patch). A thread that waits for input
 * has its stream locked and need not come back; there is nothing to write out. Streams that other
 * threads may still use are not closed. */
int __stele_close_at_exit(struct _reent* reent, FILE* stream);
int __stele_close_at_exit(struct _reent* reent, FILE* stream) {
  if (ftrylockfile(stream) != 0) {
    if (stream->_flags & __SRD) return 0;
    flockfile(stream);
  }
  const int result = __libc_single_threaded ? _fclose_r(reent, stream) : _fflush_r(reent, stream);
  funlockfile(stream);
  return result;
}

_ssize_t _read_r(struct _reent* reent, int fd, void* buffer, size_t size) {
  (void)reent;
  return SYSCALL3(read, fd, buffer, size);
}
_ssize_t _write_r(struct _reent* reent, int fd, const void* buffer, size_t size) {
  (void)reent;
  return SYSCALL3(write, fd, buffer, size);
}
int _open_r(struct _reent* reent, const char* path, int flags, int mode) {
  (void)reent;
  return (int)SYSCALL4(open, ABI_AT_FDCWD, path, flags, mode);
}
int _close_r(struct _reent* reent, int fd) {
  (void)reent;
  return (int)SYSCALL1(close, fd);
}
