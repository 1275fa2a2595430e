// Messages for bad arguments and for --help, in the manner of Python's argparse.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

struct CommandLine {
  std::string_view program;
  std::string_view usage;  // whole lines

  // Prints the usage and the error `what`, and ends the program with status 2.
  [[noreturn]] void bad(const std::string& what) const;
  // Prints the usage and ends the program with status 2. getopt_long has printed the error.
  [[noreturn]] void misused() const;
  // Prints the usage and `description`, and ends the program with status 0.
  [[noreturn]] void help(std::string_view description) const;
  // Calls bad() unless argv ends at `index`.
  void no_more(char** argv, int index) const;
  // Returns the number in `text`, the value of the argument `name`. Calls bad() if it is not an
  // integer from `low` to `high`.
  uint64_t number(std::string_view name, std::string_view text, uint64_t low, uint64_t high) const;
  // Like number(), for a number that may have a fraction.
  double real(std::string_view name, std::string_view text, double low, double high) const;
  // Like real(), for a number of seconds, which is rounded to milliseconds.
  std::chrono::milliseconds seconds(std::string_view name, std::string_view text, double low,
                                    double high) const;
  // Like number(), for a number of bytes: K, M or G may follow the digits.
  uint64_t bytes(std::string_view name, std::string_view text, uint64_t low, uint64_t high) const;
};
