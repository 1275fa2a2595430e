#include "counts.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <stdexcept>
#include <utility>

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

// "kernel FRAME… user FRAME… pid N name NAME path PATH build DIGITS" and whatever keys may come; each may be missing. No key
// looks like a frame.
Count parse_count(std::string_view text) {
  Count count{};
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

}  // namespace

Summary Counter::since_last(std::string_view text) {
  Summary summary;
  const auto growth = [](Totals& known, std::string_view key, uint64_t value) {
    auto found = known.find(key);
    if (found == known.end()) found = known.emplace(std::string(key), 0).first;
    return value - std::exchange(found->second, value);
  };
  std::map<std::string_view, uint64_t> now;
  while (!text.empty()) {
    const std::string_view line = take(text, '\n');
    std::string_view rest = line;
    const std::string_view word = take(rest, ' ');
    if (word == "hits") {
      rest = line;
      while (!rest.empty()) {
        const std::string_view key = take(rest, ' ');
        const uint64_t grown = growth(counters_, key, number_in(take(rest, ' '), 10).value_or(0));
        if (key == "lost") summary.losses.calls = grown;
        if (key == "kept_out") summary.losses.kept_out = grown;
        if (key == "stacks_lost") summary.losses.stacks = grown;
        if (key == "contexts_lost") summary.losses.processes = grown;
        if (key == "truncated") summary.losses.truncated = grown;
      }
    } else if (word == "count") {
      const auto calls = number_in(take(rest, ' '), 10);
      if (!calls) strange(line);
      now[rest] += *calls;
    } else if (!line.empty() && word != "probe") {
      strange(line);
    }
  }
  for (const auto& [what, calls] : now) {
    const uint64_t grown = growth(calls_, what, calls);
    if (grown == 0) continue;
    summary.counts.push_back(parse_count(what));
    summary.counts.back().calls = grown;
  }
  std::stable_sort(summary.counts.begin(), summary.counts.end(),
                   [](const Count& a, const Count& b) { return a.calls < b.calls; });
  return summary;
}
