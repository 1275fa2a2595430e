// printf-style formatting without allocation.
#include "lib/format.h"

#include <cstdint>

#include "lib/string.h"

namespace {

class Writer {
 public:
  Writer(char* buffer, size_t size) : buffer_(buffer), size_(size) {}
  void put(char c) {
    if (length_ + 1 < size_) buffer_[length_] = c;
    length_++;
  }
  void repeat(char c, int n) {
    for (; n > 0; n--) put(c);
  }
  void put(const char* text, size_t n) {
    for (size_t i = 0; i < n; i++) put(text[i]);
  }
  int finish() {
    if (size_ > 0) buffer_[length_ < size_ ? length_ : size_ - 1] = '\0';
    return static_cast<int>(length_);
  }

 private:
  char* buffer_;
  size_t size_;
  size_t length_ = 0;
};

// The fields between the percent sign and the letter of a conversion.
struct Conversion {
  bool left = false, plus = false, zero = false;
  int width = 0;
  int precision = -1;  // -1: none was given
  int bytes = 4;       // size of an integer argument
};

// A va_list that can be passed by reference: the type va_list itself may be an array.
struct ArgumentList {
  va_list list;
};

void put_text(Writer& out, const Conversion& c, const char* text, size_t n) {
  const int pad = c.width - static_cast<int>(n);
  if (!c.left) out.repeat(' ', pad);
  out.put(text, n);
  if (c.left) out.repeat(' ', pad);
}

void put_number(Writer& out, const Conversion& c, uint64_t value, unsigned base, bool upper,
                const char* prefix) {
  char digits[24];
  int n = 0;
  const char* alphabet = upper ? "0123456789ABCDEF" : "0123456789abcdef";
  for (uint64_t rest = value; rest != 0; rest /= base) digits[n++] = alphabet[rest % base];
  if (n == 0 && c.precision != 0) digits[n++] = '0';
  const int prefix_length = static_cast<int>(strlen(prefix));
  int zeros = c.precision > n ? c.precision - n : 0;
  if (c.zero && !c.left && c.precision < 0 && c.width > n + prefix_length)
    zeros = c.width - n - prefix_length;
  const int pad = c.width - n - zeros - prefix_length;
  if (!c.left) out.repeat(' ', pad);
  out.put(prefix, prefix_length);
  out.repeat('0', zeros);
  while (n > 0) out.put(digits[--n]);
  if (c.left) out.repeat(' ', pad);
}

int read_number(const char*& p) {
  int value = 0;
  for (; *p >= '0' && *p <= '9'; p++) value = value * 10 + (*p - '0');
  return value;
}

// A number in the pattern, or the next argument for `*`.
int width_or_precision(const char*& p, ArgumentList& arguments) {
  if (*p != '*') return read_number(p);
  p++;
  return va_arg(arguments.list, int);
}

// Reads flags, width, precision and size of a conversion. Leaves `p` at the conversion's letter.
Conversion read_conversion(const char*& p, ArgumentList& arguments) {
  Conversion c;
  for (; *p == '-' || *p == '+' || *p == '0'; p++) {
    c.left |= *p == '-';
    c.plus |= *p == '+';
    c.zero |= *p == '0';
  }
  c.width = width_or_precision(p, arguments);
  if (c.width < 0) {
    c.left = true;
    c.width = -c.width;
  }
  if (*p == '.') c.precision = width_or_precision(++p, arguments);
  for (; *p == 'l' || *p == 'z' || *p == 't' || *p == 'j' || *p == 'h'; p++)
    c.bytes = *p != 'h' ? 8 : (c.bytes == 2 ? 1 : 2);
  return c;
}

void put_signed(Writer& out, const Conversion& c, ArgumentList& arguments) {
  int64_t value = c.bytes == 8 ? va_arg(arguments.list, int64_t) : va_arg(arguments.list, int);
  if (c.bytes < 4) {  // keeps the low bytes and extends their sign
    const int shift = 64 - 8 * c.bytes;
    value = static_cast<int64_t>(static_cast<uint64_t>(value) << shift) >> shift;
  }
  const uint64_t magnitude =
      value < 0 ? -static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
  put_number(out, c, magnitude, 10, false, value < 0 ? "-" : (c.plus ? "+" : ""));
}

void put_unsigned(Writer& out, const Conversion& c, char letter, ArgumentList& arguments) {
  uint64_t value =
      c.bytes == 8 ? va_arg(arguments.list, uint64_t) : va_arg(arguments.list, unsigned);
  if (c.bytes < 4) value &= (uint64_t{1} << (8 * c.bytes)) - 1;
  const unsigned base = letter == 'u' ? 10 : (letter == 'o' ? 8 : 16);
  put_number(out, c, value, base, letter == 'X', "");
}

// Formats one conversion; `p` is at its letter. A lone % at the end of the pattern has no letter:
// `p` is then at the NUL and is moved back by one, so that the caller's loop finds the NUL.
void put_conversion(Writer& out, const Conversion& c, const char*& p, ArgumentList& arguments) {
  switch (*p) {
    case 'd':
    case 'i':
      return put_signed(out, c, arguments);
    case 'u':
    case 'o':
    case 'x':
    case 'X':
      return put_unsigned(out, c, *p, arguments);
    case 'p':
      return put_number(out, c, reinterpret_cast<uintptr_t>(va_arg(arguments.list, void*)), 16,
                        false, "0x");
    case 'c': {
      const char character = static_cast<char>(va_arg(arguments.list, int));
      return put_text(out, c, &character, 1);
    }
    case 's': {
      const char* text = va_arg(arguments.list, const char*);
      if (!text) text = "(null)";
      return put_text(out, c, text, c.precision >= 0 ? strnlen(text, c.precision) : strlen(text));
    }
    case '%':
      return out.put('%');
    case '\0':
      p--;
      return;
    default:
      out.put('%');
      out.put(*p);
  }
}

}  // namespace

int vformat(char* buffer, size_t size, const char* pattern, va_list arguments) {
  Writer out(buffer, size);
  ArgumentList rest;
  va_copy(rest.list, arguments);
  for (const char* p = pattern; *p; p++) {
    if (*p != '%') {
      out.put(*p);
      continue;
    }
    p++;
    const Conversion conversion = read_conversion(p, rest);
    put_conversion(out, conversion, p, rest);
  }
  va_end(rest.list);
  return out.finish();
}

int format(char* buffer, size_t size, const char* pattern, ...) {
  va_list arguments;
  va_start(arguments, pattern);
  const int length = vformat(buffer, size, pattern, arguments);
  va_end(arguments);
  return length;
}
