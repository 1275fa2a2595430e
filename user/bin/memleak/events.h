// The single allocations of -t, in the format of the original: Python's output for the fields of a
// line of Linux's trace buffer.
//
//   (b'alloctest', 12, 0, b'....', 12.345679, b'alloc entered, size = 64')
//   (b'alloctest', 12, 0, b'....', 12.345679, b'alloc exited, size = 64, result = 4a0010')
//   (b'alloctest', 12, 0, b'....', 12.345701, b'free entered, address = 4a0010, size = 64')
//
// It must be fast: the session drops events if it is slower than the process.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

class Events {
 public:
  // Takes lines of a session's `events`, in pieces of any size, and returns the text to print. The
  // text is valid until the next call.
  const std::string& add(std::string_view piece);

 private:
  void line(std::string_view text);

  std::string rest_;  // of the last piece: the beginning of a line
  std::string text_;
  std::string heading_;                           // of the lines for one event
  std::unordered_map<uint64_t, uint64_t> sizes_;  // outstanding objects, by address
};
