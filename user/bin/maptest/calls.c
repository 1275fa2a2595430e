/* Calls that the C library is about to get. */
#include <stdint.h>
#include <sys/mman.h>

#include "abi/syscall.h"

static long call(long number, uint64_t a, uint64_t b, uint64_t c) {
  long result;
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "a"(number), "D"(a), "S"(b), "d"(c)
                   : "rcx", "r11", "memory");
  return result;
}
#include <errno.h>
static int result_of(long result) {
  if (result >= 0) return (int)result;
  errno = (int)-result;
  return -1;
}
__attribute__((weak)) int mprotect(void* at, size_t size, int protection) {
  return result_of(call(ABI_SYS_mprotect, (uintptr_t)at, size, (uint64_t)protection));
}
__attribute__((weak)) int msync(void* at, size_t size, int flags) {
  return result_of(call(ABI_SYS_msync, (uintptr_t)at, size, (uint64_t)flags));
}
