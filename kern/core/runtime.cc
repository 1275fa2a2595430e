// Functions that the compiler and the freestanding part of the C++ library call by name.
#include <cstdarg>
#include <cstddef>
#include <cstdint>

#include "core/log.h"
#include "lib/format.h"

// Counts one bits without the popcnt instruction, which some processors lack (Warren, Hacker's
// Delight, 2nd edition, section 5-1).
extern "C" int __popcountdi2(int64_t value) {
  uint64_t x = static_cast<uint64_t>(value);
  x -= x >> 1 & 0x5555555555555555;
  x = (x & 0x3333333333333333) + (x >> 2 & 0x3333333333333333);
  x = (x + (x >> 4)) & 0x0f0f0f0f0f0f0f0f;
  return static_cast<int>(x * 0x0101010101010101 >> 56);
}

extern "C" void __cxa_pure_virtual() {
  panic("a pure virtual function was called");
}

// std::string_view::substr and similar functions call std::__throw_out_of_range_fmt for a position
// out of range, or std::terminate, if the library's freestanding headers define the former.
extern "C" [[noreturn]] void throw_out_of_range(const char* pattern,
                                                ...) asm("_ZSt24__throw_out_of_range_fmtPKcz");
void throw_out_of_range(const char* pattern, ...) {
  char text[128];
  va_list arguments;
  va_start(arguments, pattern);
  vformat(text, sizeof(text), pattern, arguments);
  panic("%s", text);
}

namespace std {
// The library declares it with this attribute, which clang tells from [[noreturn]].
__attribute__((noreturn)) void terminate() noexcept {
  panic("std::terminate was called: a position is out of range, or an optional is empty");
}
}  // namespace std
