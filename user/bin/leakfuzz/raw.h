// A system call as it is: the kernel's result, not errno.
#pragma once

#include <cstdint>

inline long raw_call(long number, uint64_t a = 0, uint64_t b = 0, uint64_t c = 0, uint64_t d = 0,
                     uint64_t e = 0, uint64_t f = 0) {
  long result;
  register uint64_t r10 asm("r10") = d;
  register uint64_t r8 asm("r8") = e;
  register uint64_t r9 asm("r9") = f;
  asm volatile("syscall"
               : "=a"(result)
               : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
               : "rcx", "r11", "memory");
  return result;
}
