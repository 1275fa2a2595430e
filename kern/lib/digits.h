// Numbers as text, written in place: for what is formatted by the hundred thousand, at a fraction
// of format().
#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "lib/string.h"

// Each writes at `to`, where there must be room, without a NUL, and returns the place behind. Any
// context.

inline char* put_text(char* to, std::string_view text) {
  memcpy(to, text.data(), text.size());
  return to + text.size();
}

// At most 10 characters, or 20 of 64 bits.
template <std::unsigned_integral T>
char* put_decimal(char* to, T value) {
  char digits[sizeof(T) <= 4 ? 10 : 20];
  size_t first = sizeof(digits);
  do digits[--first] = static_cast<char>('0' + value % 10);
  while ((value /= 10) != 0);
  while (first < sizeof(digits)) *to++ = digits[first++];
  return to;
}

// Without leading zeros, at most 16 characters.
inline char* put_address(char* to, uint64_t value) {
  int shift = value == 0 ? 0 : (std::bit_width(value) - 1) & ~3;
  for (; shift >= 0; shift -= 4) *to++ = "0123456789abcdef"[value >> shift & 0xf];
  return to;
}

// 16 characters.
inline char* put_hex(char* to, uint64_t value) {
  for (int shift = 60; shift >= 0; shift -= 4) *to++ = "0123456789abcdef"[value >> shift & 0xf];
  return to;
}
