#include "program.h"

#include <charconv>

#include "calls.h"
#include "pools.h"

namespace {

std::string_view next_word(std::string_view& text, char end) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  const size_t length = std::min(text.find(end), text.size());
  std::string_view word = text.substr(0, length);
  text.remove_prefix(std::min(length + 1, text.size()));
  while (word.ends_with(' ')) word.remove_suffix(1);
  return word;
}

template <typename Number>
bool parse_number(std::string_view text, Number& value, int base) {
  const auto end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, value, base);
  return result.ec == std::errc() && result.ptr == end;
}

std::optional<Argument> parse_argument(std::string_view word) {
  Argument argument;
  const bool pooled = word.front() >= 'A' && word.front() <= 'Z';
  if (pooled) argument.pool = word.front();
  if (!parse_number(word.substr(pooled ? 1 : 0), argument.value, pooled ? 10 : 16)) return {};
  if (pooled && argument.value >= pool_size(argument.pool)) return {};
  return argument;
}

std::optional<Call> parse_call(std::string_view text) {
  const CallType* const type = find_call(next_word(text, ' '));
  if (!type) return {};
  Call call{.number = type->number, .arguments = {}};
  for (std::string_view word = next_word(text, ' '); !word.empty(); word = next_word(text, ' ')) {
    const auto argument = parse_argument(word);
    if (!argument || call.arguments.size() == type->kinds.size()) return {};
    call.arguments.push_back(*argument);
  }
  call.arguments.resize(type->kinds.size());
  return call;
}

}  // namespace

std::string text_of(const Program& program) {
  std::string text = std::to_string(program.uid);
  for (const Call& call : program.calls) {
    text += &call == &program.calls.front() ? " " : "; ";
    text += call_type(call.number).name;
    for (const Argument& argument : call.arguments) {
      char digits[20];
      const auto end =
          std::to_chars(digits, digits + sizeof digits, argument.value, argument.pool ? 10 : 16);
      text += ' ';
      if (argument.pool) text += argument.pool;
      text.append(digits, end.ptr);
    }
  }
  return text;
}

std::optional<Program> parse_program(std::string_view line) {
  Program program;
  if (!parse_number(next_word(line, ' '), program.uid, 10)) return {};
  while (!line.empty()) {
    auto call = parse_call(next_word(line, ';'));
    if (!call) return {};
    program.calls.push_back(std::move(*call));
  }
  return program;
}

size_t after_again(const Program& program, size_t next) {
  while (next < program.calls.size() && program.calls[next++].number != kAgain) continue;
  return next;
}
