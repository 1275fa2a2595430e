/* KernelAddressSanitizer: its interface for the allocator. Compiles to nothing without
 * CONFIG_KASAN. For C and C++. The theory is in src/kasan.cc.
 *
 * The addresses that these functions get are multiples of eight. Addresses outside of the direct
 * map are ignored. Any context. The caller must be the only user of the memory. */
#pragma once

#ifdef __cplusplus
#include <cstddef>
#include <cstdint>
extern "C" {
#else
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#endif

/* Reasons why memory is forbidden. */
enum kasan_why {
  KASAN_REDZONE = 0x81, /* bytes after an object */
  KASAN_NO_OBJECT,      /* bytes of a slab that were never allocated, or belong to the allocator */
  KASAN_FREED,          /* a freed object */
  KASAN_FREED_PAGES,    /* freed pages of an arena */
};

#ifdef CONFIG_KASAN

enum { KASAN_REDZONE_BYTES = 16 }; /* least number of bytes between two objects in a slab */

/* Makes the shadow memory, which says for each byte of memory whether access is allowed. At first
 * all memory is allowed. Called once, between boot_parse() and memory_init(). */
void kasan_init(void);
/* Forbids access to `size` bytes, rounded up to a multiple of eight. */
void kasan_forbid(const void* address, size_t size, enum kasan_why why);
/* Allows access to exactly `size` bytes. */
void kasan_allow(const void* address, size_t size);
/* Checks an object or pages that are about to be freed. True if the memory is allocated; otherwise
 * reports the error and returns false. */
bool kasan_may_free(const void* address);

#else

enum { KASAN_REDZONE_BYTES = 0 };
static inline void kasan_init(void) {}
static inline void kasan_forbid(const void* address, size_t size, enum kasan_why why) {
  (void)address, (void)size, (void)why;
}
static inline void kasan_allow(const void* address, size_t size) {
  (void)address, (void)size;
}
static inline bool kasan_may_free(const void* address) {
  (void)address;
  return true;
}

#endif

#ifdef __cplusplus
}
#endif
