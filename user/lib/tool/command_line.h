// What programs say of arguments that they cannot take, and of --help, in the manner of Python's
// argparse.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

struct CommandLine {
  std::string_view program;
  std::string_view usage;  // whole lines

  // Prints the usage and what is wrong, and ends the program with status 2.
  [[noreturn]] void bad(const std::string& what) const;
  // The same after getopt_long has said what is wrong.
  [[noreturn]] void misused() const;
  // Prints the usage and `description`, and ends the program with status 0.
  [[noreturn]] void help(std::string_view description) const;
  // bad() unless argv[index] is the end.
  void no_more(char** argv, int index) const;
  // The value `text` of the argument `name`; bad() if it is not a number from `low` to `high`.
  uint64_t number(std::string_view name, std::string_view text, uint64_t low, uint64_t high) const;
  // The same for a number with a fraction.
  double real(std::string_view name, std::string_view text, double low, double high) const;
  // Seconds with a fraction, rounded to milliseconds.
  std::chrono::milliseconds seconds(std::string_view name, std::string_view text, double low,
                                    double high) const;
  // As number(); K, M or G may follow.
  uint64_t bytes(std::string_view name, std::string_view text, uint64_t low, uint64_t high) const;
};
