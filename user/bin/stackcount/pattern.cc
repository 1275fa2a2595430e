#include "pattern.h"

#include <stdexcept>
#include <vector>
// gcc 12 with sanitizers gives a false warning in this header.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <regex>
#pragma GCC diagnostic pop

namespace {

// Splits the text at single colons. A "::" does not split the text.
std::vector<std::string> parts_of(std::string_view text) {
  std::vector<std::string> parts(1);
  for (std::size_t i = 0; i < text.size(); i++) {
    if (text[i] != ':') {
      parts.back() += text[i];
    } else if (i + 1 < text.size() && text[i + 1] == ':') {
      parts.back() += "::";
      i++;
    } else {
      parts.emplace_back();
    }
  }
  return parts;
}

// After a mismatch, lets the last '*' match one more character. Earlier '*' keep their matches,
// because the last '*' can skip every character that a longer match of an earlier '*' would skip.
bool glob_matches(std::string_view pattern, std::string_view name) {
  std::size_t at = 0, i = 0, star = pattern.npos, star_end = 0;
  while (i < name.size()) {
    if (at < pattern.size() && pattern[at] == '*') {
      star = at++;
      star_end = i;
    } else if (at < pattern.size() && (pattern[at] == '?' || pattern[at] == name[i])) {
      at++;
      i++;
    } else if (star != pattern.npos) {
      at = star + 1;
      i = ++star_end;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', at) == pattern.npos;
}

}  // namespace

Pattern parse_pattern(std::string_view text) {
  const std::string quoted = "\"" + std::string(text) + "\"";
  if (text.starts_with("p::")) return {.program = "", .function = std::string(text.substr(3))};
  std::vector<std::string> parts = parts_of(text);
  if (parts.size() > 1 && (parts[0] == "t" || parts[0] == "u")) {
    throw std::runtime_error(
        quoted + ": this system has no " + (parts[0] == "t" ? "kernel" : "USDT") +
        " tracepoints; any function will do: FUNCTION of the kernel, PROGRAM:FUNCTION");
  }
  if (parts.size() == 3 && parts[0] != "p") {
    throw std::runtime_error("Type must be 'p', 't', or 'u', but got " + parts[0]);
  }
  if (parts.size() > 3)
    throw std::runtime_error("Too many ':'-separated components in pattern " + quoted);
  if (parts.back().empty()) throw std::runtime_error(quoted + " names no function");
  if (parts.size() == 1) return {.program = "", .function = parts[0]};
  const std::string& program = parts[parts.size() - 2];
  if (program.empty()) throw std::runtime_error(quoted + " names no program");
  return {.program = program, .function = parts.back()};
}

std::function<bool(std::string_view)> name_matcher(const std::string& function,
                                                   bool regular_expression) {
  if (!regular_expression)
    return [function](std::string_view name) { return glob_matches(function, name); };
  try {
    // The default matching algorithm is recursive, and long C++ names would overflow the stack.
    // This flag of libstdc++ selects another algorithm.
    const std::regex expression(function,
                                std::regex::ECMAScript | std::regex_constants::__polynomial);
    return [expression](std::string_view name) {
      return std::regex_search(name.begin(), name.end(), expression,
                               std::regex_constants::match_continuous);
    };
  } catch (const std::regex_error& error) {
    throw std::runtime_error("\"" + function + "\": bad regular expression: " + error.what());
  }
}
