// The single allocations of -t, in the format of the original: what Python prints for the fields of a line of Linux's trace
// buffer.
//
//   (b'alloctest', 12, 0, b'....', 12.345679, b'alloc entered, size = 64')
//   (b'alloctest', 12, 0, b'....', 12.345679, b'alloc exited, size = 64, result = 4a0010')
//   (b'alloctest', 12, 0, b'....', 12.345701, b'free entered, address = 4a0010, size = 64')
#pragma once

#include <cstdint>
#include <map>
#include <ostream>
#include <string>
#include <string_view>

class Events {
 public:
  explicit Events(std::ostream& out) : out_(out) {}
  // Takes lines of a session's `events`, in pieces of any size.
  void add(std::string_view piece);

 private:
  void line(std::string_view text);

  std::ostream& out_;
  std::string rest_;                      // of the last piece: the beginning of a line
  std::map<uint64_t, std::string> sizes_;  // of what is outstanding, by address
};
