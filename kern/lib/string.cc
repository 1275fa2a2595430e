// Memory and string functions. Copies use `rep movs` with eight bytes in each iteration, because an
// emulator that counts instructions counts each iteration as one.
#include "lib/string.h"

#include <cstdint>

#include "lib/sanitize.h"

// The compiler must not replace the loops below by calls of the functions that they implement.
#pragma GCC optimize("no-tree-loop-distribute-patterns")

[[gnu::always_inline]] static inline void* copy(void* to, const void* from, size_t n) {
  void* d = to;
  size_t words = n / 8;
  asm volatile("rep movsq" : "+D"(d), "+S"(from), "+c"(words)::"memory");
  size_t rest = n % 8;
  asm volatile("rep movsb" : "+D"(d), "+S"(from), "+c"(rest)::"memory");
  return to;
}

[[gnu::always_inline]] static inline void* copy_up(void* to, const void* from, size_t n) {
  if (reinterpret_cast<uintptr_t>(to) - reinterpret_cast<uintptr_t>(from) >= n)
    return copy(to, from, n);
  auto* d = static_cast<unsigned char*>(to) + n - 1;
  auto* s = static_cast<const unsigned char*>(from) + n - 1;
  asm volatile("std; rep movsb; cld" : "+D"(d), "+S"(s), "+c"(n)::"memory");
  return to;
}

[[gnu::always_inline]] static inline void* fill(void* to, int byte, size_t n) {
  void* d = to;
  const uint64_t pattern = (byte & 0xff) * 0x0101010101010101u;
  size_t words = n / 8;
  asm volatile("rep stosq" : "+D"(d), "+c"(words) : "a"(pattern) : "memory");
  size_t rest = n % 8;
  asm volatile("rep stosb" : "+D"(d), "+c"(rest) : "a"(pattern) : "memory");
  return to;
}

#ifdef CONFIG_KASAN
// Called instead of memcpy, memmove and memset by code that is exempt from KernelAddressSanitizer
// (kern.mk).
extern "C" void* memcpy_exempt(void* to, const void* from, size_t n) {
  return copy(to, from, n);
}
extern "C" void* memmove_exempt(void* to, const void* from, size_t n) {
  return copy_up(to, from, n);
}
extern "C" void* memset_exempt(void* to, int byte, size_t n) {
  return fill(to, byte, n);
}
#endif

void* memcpy(void* to, const void* from, size_t n) {
  sanitize_read(from, n);
  sanitize_write(to, n);
  return copy(to, from, n);
}

void* memmove(void* to, const void* from, size_t n) {
  sanitize_read(from, n);
  sanitize_write(to, n);
  return copy_up(to, from, n);
}

void* memset(void* to, int byte, size_t n) {
  sanitize_write(to, n);
  return fill(to, byte, n);
}

int memcmp(const void* a, const void* b, size_t n) {
  auto* x = static_cast<const unsigned char*>(a);
  auto* y = static_cast<const unsigned char*>(b);
  size_t i = 0;
  // Compares whole words until two differ. This is fast for equal memory, the usual case.
  for (; i + sizeof(uint64_t) <= n; i += sizeof(uint64_t)) {
    uint64_t v, w;
    __builtin_memcpy(&v, x + i, sizeof(v));
    __builtin_memcpy(&w, y + i, sizeof(w));
    if (v != w) break;
  }
  for (; i < n; i++) {
    if (x[i] != y[i]) return x[i] < y[i] ? -1 : 1;
  }
  return 0;
}

size_t strlen(const char* s) {
  size_t n = 0;
  while (s[n]) n++;
  return n;
}

size_t strnlen(const char* s, size_t n) {
  size_t length = 0;
  while (length < n && s[length]) length++;
  return length;
}

int strcmp(const char* a, const char* b) {
  return strncmp(a, b, SIZE_MAX);
}

int strncmp(const char* a, const char* b, size_t n) {
  for (size_t i = 0; i < n; i++) {
    const unsigned char x = a[i], y = b[i];
    if (x != y) return x < y ? -1 : 1;
    if (x == 0) return 0;
  }
  return 0;
}

// The C++ library calls this function. The header does not declare it, because <cstring> declares
// overloads of memchr.
extern "C" void* memchr(const void* memory, int byte, size_t n) {
  auto* p = static_cast<const unsigned char*>(memory);
  for (size_t i = 0; i < n; i++) {
    if (p[i] == static_cast<unsigned char>(byte)) return const_cast<unsigned char*>(p + i);
  }
  return nullptr;
}
