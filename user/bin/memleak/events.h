// The single allocations of -t, in the format of the original: what Python prints for the fields of
// a line of Linux's trace buffer.
//
//   (b'alloctest', 12, 0, b'....', 12.345679, b'alloc entered, size = 64')
//   (b'alloctest', 12, 0, b'....', 12.345679, b'alloc exited, size = 64, result = 4a0010')
//   (b'alloctest', 12, 0, b'....', 12.345701, b'free entered, address = 4a0010, size = 64')
//
// Made to be quick: what it takes longer than the process to allocate, the session has to drop.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

class Events {
 public:
  // Takes lines of a session's `events`, in pieces of any size, and returns what is to be printed.
  // It holds until the next call.
  const std::string& add(std::string_view piece);

 private:
  void line(std::string_view text);

  std::string rest_;  // of the last piece: the beginning of a line
  std::string text_;
  std::string heading_;                           // of the lines for one event
  std::unordered_map<uint64_t, uint64_t> sizes_;  // of what is outstanding, by address
};
