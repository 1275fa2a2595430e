#include "counts.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <stdexcept>
#include <tuple>

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

// After `kernel` or `user`, each word that is a hexadecimal number is a frame. No key is a
// hexadecimal number.
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

std::size_t StackTree::hash(uint32_t caller, uint64_t frame) {
  return ((frame ^ uint64_t{caller} << 40) + caller) * 0x9e3779b97f4a7c15 >> 20;
}

uint32_t StackTree::called(uint32_t caller, uint64_t frame) {
  if (2 * nodes_.size() > places_.size()) grow();
  std::size_t place = hash(caller, frame);
  for (;; place++) {
    uint32_t& number = places_[place & (places_.size() - 1)];
    if (number == 0) {
      number = static_cast<uint32_t>(nodes_.size());
      nodes_.push_back({frame, caller});
      return number;
    }
    if (nodes_[number].frame == frame && nodes_[number].caller == caller) return number;
  }
}

void StackTree::grow() {
  places_.assign(2 * places_.size(), 0);
  for (std::size_t i = 1; i < nodes_.size(); i++) {
    std::size_t place = hash(nodes_[i].caller, nodes_[i].frame);
    while (places_[place & (places_.size() - 1)] != 0) place++;
    places_[place & (places_.size() - 1)] = static_cast<uint32_t>(i);
  }
}

uint32_t StackTree::number(const std::vector<uint64_t>& frames) {
  uint32_t number = 0;
  for (auto frame = frames.rbegin(); frame != frames.rend(); frame++)
    number = called(number, *frame);
  return number;
}

std::vector<uint64_t> StackTree::frames(uint32_t number) const {
  std::vector<uint64_t> frames;
  for (; number != 0; number = nodes_[number].caller) frames.push_back(nodes_[number].frame);
  return frames;
}

std::size_t Counter::KeyHash::operator()(const Key& key) const {
  constexpr uint64_t kMultiplier = 0x9e3779b97f4a7c15;
  return ((key.kernel * kMultiplier ^ key.user) * kMultiplier ^ key.process) * kMultiplier >> 16;
}

uint32_t Counter::process_of(Count&& count) {
  const std::string what =
      std::to_string(count.pid) + ' ' + count.name + ' ' + count.path + ' ' + count.build_id;
  const auto [known, added] = process_of_.emplace(what, static_cast<uint32_t>(processes_.size()));
  if (added) processes_.push_back(std::move(count));
  return known->second;
}

void Counter::add(std::string_view line) {
  std::string_view rest = line;
  const std::string_view word = take(rest, ' ');
  if (word == "count") {
    const auto calls = number_in(take(rest, ' '), 10);
    if (!calls) strange(line);
    Count count = parse_count(0, rest);
    const uint32_t kernel = stacks_.number(std::exchange(count.kernel, {}));
    const uint32_t user = stacks_.number(std::exchange(count.user, {}));
    calls_[{kernel, user, process_of(std::move(count))}].now += *calls;
  } else if (word == "hits") {
    for (rest = line; !rest.empty();) {
      const std::string_view key = take(rest, ' ');
      counters_[std::string(key)].now += number_in(take(rest, ' '), 10).value_or(0);
    }
  } else if (!line.empty() && word != "probe") {
    strange(line);
  }
}

Count Counter::count_of(const Summary::Group& group) const {
  Count count = processes_[group.process];
  count.calls = group.calls;
  count.kernel = stacks_.frames(group.kernel);
  count.user = stacks_.frames(group.user);
  return count;
}

Summary Counter::since_last() {
  Summary summary;
  for (auto& [key, calls] : calls_) {
    if (const uint64_t grown = calls.grown(); grown != 0) {
      summary.groups.push_back({grown, key.kernel, key.user, key.process});
    }
  }
  std::sort(summary.groups.begin(), summary.groups.end(), [](const auto& a, const auto& b) {
    return std::tie(a.calls, a.process, a.kernel, a.user) <
           std::tie(b.calls, b.process, b.kernel, b.user);
  });
  const auto counter = [&](const char* key) {
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
