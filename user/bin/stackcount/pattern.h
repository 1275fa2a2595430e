// Patterns for functions.
#pragma once

#include <functional>
#include <string>
#include <string_view>

struct Pattern {
  std::string program;   // empty: the kernel; "c": the C library
  std::string function;  // pattern with wildcards, or a regular expression
};

// Parses "FUNCTION" or "p::FUNCTION" for the kernel, and "PROGRAM:FUNCTION" or "p:PROGRAM:FUNCTION"
// for a program. Any other "::" is part of a C++ name. std::runtime_error for an invalid pattern,
// and for a tracepoint, which bcc's stackcount accepts but this system does not have.
Pattern parse_pattern(std::string_view text);

// Returns a predicate that is true for names that match `function`. `function` is a pattern with
// '*' for any characters and '?' for any one character. If `regular_expression` is true, `function`
// is an ECMAScript regular expression that must match at the beginning of the name.
// std::runtime_error for a bad expression.
std::function<bool(std::string_view)> name_matcher(const std::string& function,
                                                   bool regular_expression);
