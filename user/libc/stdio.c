/* Additions to newlib's streams: flockfile, closing at exit, and system calls that are no
 * cancellation points.
 *
 * newlib's stream functions hold the stream's lock during their system calls. A thread that was
 * cancelled in such a call would leave the stream locked, so these calls cannot be cancelled.
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

/* Called for each stream when the program ends (newlib/edits). A thread that waits for input
 * holds its stream's lock, perhaps for ever; such a stream has nothing to flush and is skipped. If
 * the process has had several threads, streams are flushed but not closed, since other threads may
 * still use them. */
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
  return SYSCALL(read, fd, buffer, size);
}
_ssize_t _write_r(struct _reent* reent, int fd, const void* buffer, size_t size) {
  (void)reent;
  return SYSCALL(write, fd, buffer, size);
}
int _open_r(struct _reent* reent, const char* path, int flags, int mode) {
  (void)reent;
  return (int)SYSCALL(open, ABI_AT_FDCWD, path, flags, mode);
}
int _close_r(struct _reent* reent, int fd) {
  (void)reent;
  return (int)SYSCALL(close, fd);
}
