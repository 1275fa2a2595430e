// User input in a form that an error string can contain: unprintable characters become `?`, and a
// long text is cut.
#pragma once

#include <cstddef>
#include <string_view>

class Quoted {
 public:
  explicit Quoted(std::string_view text) {
    constexpr size_t kShown = sizeof(text_) - 4;
    size_t length = 0;
    for (; length < text.size() && length < kShown; length++) {
      text_[length] = text[length] >= ' ' && text[length] <= '~' ? text[length] : '?';
    }
    if (length < text.size()) {
      for (int i = 0; i < 3; i++) text_[length++] = '.';
    }
    text_[length] = 0;
  }
  const char* get() const { return text_; }

 private:
  char text_[32];
};
