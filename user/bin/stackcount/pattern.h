// Patterns for functions.
#pragma once

#include <functional>
#include <string>
#include <string_view>

struct Pattern {
  std::string program;   // empty: the kernel; "c": the C library
  std::string function;  // with wildcards, or a regular expression
};

// "FUNCTION", "PROGRAM:FUNCTION", and the same with "p:" in front ("p::FUNCTION"). "::" belongs to
// C++ names. std::runtime_error for the original's other forms, and for invalid ones.
Pattern parse_pattern(std::string_view text);

// Does a name match: with '*' for any characters and '?' for any one, or by a regular expression
// (ECMAScript) that is matched from the name's beginning, but need not reach its end?
// std::runtime_error for a bad expression.
std::function<bool(std::string_view)> name_matcher(const std::string& function,
                                                   bool regular_expression);
