// Formats text into a buffer; without a buffer, only measures it.
#pragma once

#include <cstdarg>
#include <cstddef>

#include "lib/format.h"

namespace reach {

class Writer {
 public:
  Writer(char* buffer, size_t size) : buffer_(buffer), size_(size) {}
  // Appends formatted text. Text for which there is no room is counted but not stored.
  void print(const char* pattern, ...) __attribute__((format(printf, 2, 3))) {
    va_list arguments;
    va_start(arguments, pattern);
    const bool room = length_ < size_;
    length_ += static_cast<size_t>(vformat(room ? buffer_ + length_ : nullptr,
                                           room ? size_ - length_ : 0, pattern, arguments));
    va_end(arguments);
  }
  // Returns the length of everything that was printed.
  size_t length() const { return length_; }

 private:
  char* const buffer_;
  const size_t size_;
  size_t length_ = 0;
};

}  // namespace reach
