// Patterns for functions.
#pragma once

#include <functional>
#include <string>
#include <string_view>

struct Pattern {
  std::string program;   // empty: the kernel; "c": the C library
  std::string function;  // pattern with wildcards, or a regular expression
};

// Parses "FUNCTION" or "p::FUNCTION", and "PROGRAM:FUNCTION" or "p:PROGRAM:FUNCTION". Elsewhere
// "::" is part of a C++ name. std::runtime_error for other forms of bcc's stackcount, and for
// invalid patterns.
Pattern parse_pattern(std::string_view text);

// Returns a function that tells if a name matches `function`: a pattern with '*' for any characters
// and '?' for any one character, or an ECMAScript regular expression. The expression must match
// from the beginning of the name, but need not reach its end. std::runtime_error for a bad
// expression.
std::function<bool(std::string_view)> name_matcher(const std::string& function,
                                                   bool regular_expression);
