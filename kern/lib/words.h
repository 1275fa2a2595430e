// Parsing of words and numbers in commands that users write to files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

constexpr bool is_space(char c) {
  return c == ' ' || c == '\t' || c == '\r';
}

// Removes the next word from the front of `line` and returns it; empty if there is none.
inline std::string_view next_word(std::string_view& line) {
  while (!line.empty() && is_space(line.front())) line.remove_prefix(1);
  size_t length = 0;
  while (length < line.size() && !is_space(line[length])) length++;
  const std::string_view word = line.substr(0, length);
  line.remove_prefix(length);
  return word;
}

// Parses a decimal number from `low` to `high`; false for anything else.
inline bool parse_number(std::string_view text, uint64_t low, uint64_t high, uint64_t* number) {
  if (text.empty()) return false;
  uint64_t value = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return false;
    value = value * 10 + static_cast<uint64_t>(c - '0');
    if (value > high) return false;  // also prevents an overflow, because `high` is far below 2^64
  }
  *number = value;
  return value >= low;
}

// Parses the name of a file that has a number: a decimal number up to `high` without leading zeros.
inline bool parse_file_number(std::string_view name, uint64_t high, uint64_t* number) {
  return parse_number(name, 0, high, number) && (name.size() == 1 || name.front() != '0');
}

enum class TakenNumber { kNumber, kNoDigits, kTooLarge };

// Removes the digits at the front of `text`, of the base 10 or 16, and sets `*number` to their
// value. If there are no digits, or if the value has more than 64 bits, `*number` does not change;
// digits of a value that is too large are removed, too.
inline TakenNumber take_number(std::string_view& text, unsigned base, uint64_t* number) {
  const auto digit = [base](char c) -> unsigned {
    if (c >= '0' && c <= '9') return static_cast<unsigned>(c - '0');
    const char lower = static_cast<char>(c | 0x20);
    return base == 16 && lower >= 'a' && lower <= 'f' ? static_cast<unsigned>(lower - 'a') + 10
                                                      : base;
  };
  size_t length = 0;
  uint64_t value = 0;
  bool too_large = false;
  for (; length < text.size() && digit(text[length]) < base; length++)
    too_large |= __builtin_mul_overflow(value, base, &value) |
                 __builtin_add_overflow(value, digit(text[length]), &value);
  text.remove_prefix(length);
  if (length == 0) return TakenNumber::kNoDigits;
  if (too_large) return TakenNumber::kTooLarge;
  *number = value;
  return TakenNumber::kNumber;
}

// Parses a number of bytes: digits, then K, M, G or nothing. The result lies from `low` to `high`;
// false for anything else.
inline bool parse_bytes(std::string_view text, uint64_t low, uint64_t high, uint64_t* bytes) {
  const char last = text.empty() ? '\0' : text.back();
  const unsigned shift = last == 'K' ? 10 : last == 'M' ? 20 : last == 'G' ? 30 : 0;
  if (shift > 0) text.remove_suffix(1);
  if (!parse_number(text, 0, high >> shift, bytes)) return false;
  *bytes <<= shift;
  return *bytes >= low;
}
