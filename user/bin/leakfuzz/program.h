// Programs: what the fuzzer makes, logs, and runs.
//
// A program is a list of system calls with their arguments. An argument is a number, or an entry of
// a pool (pools.h): paths, buffers and the like are named, not built, so that a program is one line
// of text, means the same in the next guest, and can reach only what the pools have:
//
//     open P3 2 0; write 3 D1 40; close 3
//
// A number is hexadecimal; an entry is a pool's letter and a decimal index.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

struct Argument {
  char pool = 0;  // its letter; 0: a number
  uint64_t value = 0;

  bool operator==(const Argument&) const = default;
};

struct Call {
  uint32_t number = 0;
  std::vector<Argument> arguments;  // as many as the call has

  bool operator==(const Call&) const = default;
};

struct Program {
  uint32_t uid = 0;
  std::vector<Call> calls;

  bool operator==(const Program&) const = default;
};

// The line "UID call; call …", and back; nothing if it is none.
std::string text_of(const Program& program);
std::optional<Program> parse_program(std::string_view line);
