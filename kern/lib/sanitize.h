// Checks for KernelAddressSanitizer around inline assembly that accesses memory. The compiler makes
// such checks only for its own loads and stores.
#pragma once

#include <cstddef>
#include <cstdint>

#ifdef CONFIG_KASAN
extern "C" void __asan_loadN_noabort(uint64_t address, size_t size);
extern "C" void __asan_storeN_noabort(uint64_t address, size_t size);

inline void sanitize_read(const void* from, size_t size) {
  __asan_loadN_noabort(reinterpret_cast<uint64_t>(from), size);
}
inline void sanitize_write(void* to, size_t size) {
  __asan_storeN_noabort(reinterpret_cast<uint64_t>(to), size);
}
#else
inline void sanitize_read(const void*, size_t) {}
inline void sanitize_write(void*, size_t) {}
#endif
