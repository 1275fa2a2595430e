// The programs that the fuzzer makes, logs, and runs.
//
// A program is a list of system calls with their arguments. An argument is a number, or the name of
// an entry in a pool (pools.h) of paths, buffers and so on. So a program does the same in each
// guest, can use only paths and memory of the pools, and is one line of text:
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
  char pool = 0;  // letter of the pool; 0: the argument is a number
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

// Convert a program to the line "UID call; call …" and back. parse_program() returns nothing if the
// line is no program.
std::string text_of(const Program& program);
std::optional<Program> parse_program(std::string_view line);

// Returns the index of the call after the first `again` (calls.h) at or after index `next`; the
// number of calls if there is none.
size_t after_again(const Program& program, size_t next);
