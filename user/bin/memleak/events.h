// The output of -t: each allocation and free, in the format of bcc's memleak, which prints the
// fields of a line of Linux's trace buffer as a Python tuple.
//
//   (b'alloctest', 12, 0, b'....', 12.345679, b'alloc entered, size = 64')
//   (b'alloctest', 12, 0, b'....', 12.345679, b'alloc exited, size = 64, result = 4a0010')
//   (b'alloctest', 12, 0, b'....', 12.345701, b'free entered, address = 4a0010, size = 64')
//
// Formatting must be fast: the session drops events if memleak is slower than the traced process.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

class Events {
 public:
  // Takes a piece, of any size, of the file `events` of a probe session. Returns the text to print
  // for the lines that are complete. The text is valid until the next call.
  const std::string& add(std::string_view piece);

 private:
  void line(std::string_view text);

  std::string rest_;  // the incomplete line at the end of the last piece
  std::string text_;
  std::string heading_;                           // first fields of each line of one event
  std::unordered_map<uint64_t, uint64_t> sizes_;  // for each outstanding object, by address: bytes
};
