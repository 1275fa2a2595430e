#include "counts.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <stdexcept>

namespace {

[[noreturn]] void strange(std::string_view line) {
  throw std::runtime_error("#probe: counts: strange line \"" + std::string(line) + "\"");
}

std::string_view take(std::string_view& rest, char end) {
  const std::string_view taken = rest.substr(0, rest.find(end));
  rest.remove_prefix(std::min(taken.size() + 1, rest.size()));
  return taken;
}

std::optional<uint64_t> number_in(std::string_view text, int base) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.begin(), text.end(), number, base);
  if (error != std::errc() || end != text.end()) return {};
  return number;
}

std::string bytes_in(std::string_view digits) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < digits.size(); i += 2) {
    bytes += static_cast<char>(number_in(digits.substr(i, 2), 16).value_or(0));
  }
  return bytes;
}

}  // namespace

// No key looks like a frame.
Count parse_count(uint64_t calls, std::string_view text) {
  Count count{};
  count.calls = calls;
  std::vector<uint64_t>* frames = nullptr;
  while (!text.empty()) {
    const std::string_view word = take(text, ' ');
    if (word == "kernel" || word == "user") {
      frames = word == "kernel" ? &count.kernel : &count.user;
    } else if (const auto frame = number_in(word, 16); frame && frames != nullptr) {
      frames->push_back(*frame);
    } else {
      frames = nullptr;
      const std::string_view value = take(text, ' ');
      if (word == "pid") count.pid = static_cast<uint32_t>(number_in(value, 10).value_or(0));
      if (word == "name") count.name = value;
      if (word == "path") count.path = value;
      if (word == "build") count.build_id = bytes_in(value);
    }
  }
  return count;
}

void Counter::add(Numbers& numbers, std::string_view what, uint64_t number) {
  auto found = numbers.find(what);
  if (found == numbers.end()) found = numbers.emplace(what, Number{}).first;
  found->second.now += number;
}

void Counter::add(std::string_view line) {
  std::string_view rest = line;
  const std::string_view word = take(rest, ' ');
  if (word == "count") {
    const auto calls = number_in(take(rest, ' '), 10);
    if (!calls) strange(line);
    add(calls_, rest, *calls);
  } else if (word == "hits") {
    for (rest = line; !rest.empty();) {
      const std::string_view key = take(rest, ' ');
      add(counters_, key, number_in(take(rest, ' '), 10).value_or(0));
    }
  } else if (!line.empty() && word != "probe") {
    strange(line);
  }
}

Summary Counter::since_last() {
  Summary summary;
  for (auto& [what, calls] : calls_) {
    if (const uint64_t grown = calls.grown(); grown != 0) summary.groups.push_back({grown, &what});
  }
  std::sort(summary.groups.begin(), summary.groups.end(),
            [](const auto& a, const auto& b) { return a.calls != b.calls ? a.calls < b.calls : *a.what < *b.what; });
  const auto counter = [&](std::string_view key) {
    const auto found = counters_.find(key);
    return found == counters_.end() ? 0 : found->second.grown();
  };
  summary.losses = {.calls = counter("lost"),
                    .kept_out = counter("kept_out"),
                    .stacks = counter("stacks_lost"),
                    .processes = counter("contexts_lost"),
                    .truncated = counter("truncated")};
  return summary;
}
