// Options of a command line, and messages for bad arguments and for --help, in the manner of
// Python's argparse.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

// An option calls `set`, if it has no value, or `take` with its name, such as "-n/--count", and its
// value. `letter` may be 0 or `name` nullptr: then the option has only the other.
struct Option {
  char letter;
  const char* name;
  std::function<void()> set;
  std::function<void(std::string_view name, std::string_view value)> take;

  Option(char letter, const char* name, bool& flag, bool value = true)
      : letter(letter), name(name), set([&flag, value] { flag = value; }) {}
  Option(char letter, const char* name, std::string& text)
      : letter(letter), name(name), take([&text](auto, auto value) { text = value; }) {}
  Option(char letter, const char* name, std::function<void()> set)
      : letter(letter), name(name), set(std::move(set)) {}
  Option(char letter, const char* name,
         std::function<void(std::string_view name, std::string_view value)> take)
      : letter(letter), name(name), take(std::move(take)) {}
};

struct CommandLine {
  std::string_view program;
  std::string_view usage;  // whole lines

  // Prints the usage and the error `what`, and ends the program with status 2.
  [[noreturn]] void bad(const std::string& what) const;
  // Performs the options in argv, in their order. Returns the index of the first operand. -h and
  // --help print the usage and `description`, and end the program with status 0. Ends the program
  // with status 2 if an option is wrong. With kOptionsFirst, the first operand ends the options.
  enum class Order { kAny, kOptionsFirst };
  int options(int argc, char** argv, std::string_view description,
              const std::vector<Option>& options, Order order = Order::kAny) const;
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
