// Which functions are meant.
#pragma once

#include <functional>
#include <string>
#include <string_view>

struct Pattern {
  std::string program;   // empty: the kernel; "c": the C library
  std::string function;  // with wildcards, or a regular expression
};

// "FUNCTION", "PROGRAM:FUNCTION", and the same with "p:" in front ("p::FUNCTION"). "::" belongs to
// names of C++. std::runtime_error for what the original has beyond functions, and for what is
// nothing.
Pattern parse_pattern(std::string_view text);

// Whether a name is one of those meant: with '*' for any characters and '?' for any one, or by a
// regular expression (ECMAScript) that is matched from the name's beginning, but need not reach its
// end. std::runtime_error for a bad expression.
std::function<bool(std::string_view)> name_matcher(const std::string& function,
                                                   bool regular_expression);
