// Writes numbers as text directly into a buffer. These functions cost a fraction of format(), for
// output with hundreds of thousands of numbers.
#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "lib/string.h"

// Each function writes at `to`, without a NUL, and returns the end of the text. The caller ensures
// that there is room. Any context.

inline char* put_text(char* to, std::string_view text) {
  memcpy(to, text.data(), text.size());
  return to + text.size();
}
// Puts a literal, which is stored without a call.
template <size_t kSize>
[[gnu::always_inline]] inline char* put_literal(char* to, const char (&text)[kSize]) {
  __builtin_memcpy(to, text, kSize - 1);
  return to + kSize - 1;
}

// Puts a decimal number: at most 10 characters for 32 bits, 20 for 64 bits.
template <std::unsigned_integral T>
char* put_decimal(char* to, T value) {
  constexpr unsigned kMost = sizeof(T) <= 4 ? 10 : 20;
  unsigned count = 1;
  for (T limit = 10; value >= limit && count < kMost; limit *= 10) count++;
  char* const end = to + count;
  for (to = end; count > 0; count--, value /= 10) *--to = static_cast<char>('0' + value % 10);
  return end;
}

// Puts a hexadecimal number without leading zeros, at most 16 characters.
inline char* put_address(char* to, uint64_t value) {
  int shift = value == 0 ? 0 : (std::bit_width(value) - 1) & ~3;
  for (; shift >= 0; shift -= 4) *to++ = "0123456789abcdef"[value >> shift & 0xf];
  return to;
}

// Puts 16 hexadecimal characters.
inline char* put_hex(char* to, uint64_t value) {
  for (int half = 0; half < 2; half++, value <<= 32) {
    // Eight digits, each in a byte, the last in the lowest byte.
    uint64_t digits = value >> 32;
    digits = (digits | digits << 16) & 0x0000ffff0000ffff;
    digits = (digits | digits << 8) & 0x00ff00ff00ff00ff;
    digits = (digits | digits << 4) & 0x0f0f0f0f0f0f0f0f;
    const uint64_t letters = (digits + 0x0606060606060606) >> 4 & 0x0101010101010101;
    digits = __builtin_bswap64(digits + 0x3030303030303030 + letters * ('a' - '0' - 10));
    __builtin_memcpy(to + 8 * half, &digits, sizeof(digits));
  }
  return to + 16;
}
