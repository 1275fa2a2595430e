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

struct Conversion {
  bool left = false, plus = false, zero = false;
  int width = 0;
  int precision = -1;  // none
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

}  // namespace

int vformat(char* buffer, size_t size, const char* pattern, va_list arguments) {
  Writer out(buffer, size);
  va_list args;
  va_copy(args, arguments);
  for (const char* p = pattern; *p; p++) {
    if (*p != '%') {
      out.put(*p);
      continue;
    }
    p++;
    Conversion c;
    for (;; p++) {
      if (*p == '-') {
        c.left = true;
      } else if (*p == '+') {
        c.plus = true;
      } else if (*p == '0') {
        c.zero = true;
      } else {
        break;
      }
    }
    if (*p == '*') {
      c.width = va_arg(args, int);
      if (c.width < 0) {
        c.left = true;
        c.width = -c.width;
      }
      p++;
    } else {
      c.width = read_number(p);
    }
    if (*p == '.') {
      p++;
      if (*p == '*') {
        c.precision = va_arg(args, int);
        p++;
      } else {
        c.precision = read_number(p);
      }
    }
    int bytes = 4;
    for (; *p == 'l' || *p == 'z' || *p == 't' || *p == 'j' || *p == 'h'; p++) {
      bytes = *p != 'h' ? 8 : (bytes == 2 ? 1 : 2);
    }
    switch (*p) {
      case 'd':
      case 'i': {
        int64_t value = bytes == 8 ? va_arg(args, int64_t) : va_arg(args, int);
        if (bytes < 4) {  // of the low bytes, with their sign
          const int shift = 64 - 8 * bytes;
          value = static_cast<int64_t>(static_cast<uint64_t>(value) << shift) >> shift;
        }
        const uint64_t magnitude =
            value < 0 ? -static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
        put_number(out, c, magnitude, 10, false, value < 0 ? "-" : (c.plus ? "+" : ""));
        break;
      }
      case 'u':
      case 'o':
      case 'x':
      case 'X': {
        uint64_t value = bytes == 8 ? va_arg(args, uint64_t) : va_arg(args, unsigned);
        if (bytes < 4) value &= (uint64_t{1} << (8 * bytes)) - 1;
        put_number(out, c, value, *p == 'u' ? 10 : (*p == 'o' ? 8 : 16), *p == 'X', "");
        break;
      }
      case 'p':
        put_number(out, c, reinterpret_cast<uintptr_t>(va_arg(args, void*)), 16, false, "0x");
        break;
      case 'c': {
        const char character = static_cast<char>(va_arg(args, int));
        put_text(out, c, &character, 1);
        break;
      }
      case 's': {
        const char* text = va_arg(args, const char*);
        if (!text) text = "(null)";
        put_text(out, c, text, c.precision >= 0 ? strnlen(text, c.precision) : strlen(text));
        break;
      }
      case '%':
        out.put('%');
        break;
      case '\0':
        p--;  // a lone % at the end
        break;
      default:
        out.put('%');
        out.put(*p);
    }
  }
  va_end(args);
  return out.finish();
}

int format(char* buffer, size_t size, const char* pattern, ...) {
  va_list arguments;
  va_start(arguments, pattern);
  const int length = vformat(buffer, size, pattern, arguments);
  va_end(arguments);
  return length;
}
