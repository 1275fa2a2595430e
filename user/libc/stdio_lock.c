/* Streams that a caller locks over several calls. newlib's own functions lock a stream by the same
 * macros; a process has one thread, which never waits for itself.
 */
#include <stdio.h>
#include <sys/stdio.h>

void flockfile(FILE* stream) {
  (void)stream;
  _flockfile(stream);
}
int ftrylockfile(FILE* stream) {
  flockfile(stream);
  return 0;
}
void funlockfile(FILE* stream) {
  (void)stream;
  _funlockfile(stream);
}
