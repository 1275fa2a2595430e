#include "tool/kmemstat.h"

#include <array>
#include <charconv>
#include <stdexcept>

#include "tool/files.h"

namespace {

constexpr std::size_t kColumns = 9;
constexpr std::string_view kFile = "#mem/kmemstat";

[[noreturn]] void strange(std::string_view line) {
  throw std::runtime_error(std::string(kFile) + ": strange line \"" + std::string(line) + '"');
}

std::array<std::string_view, kColumns> words_of(std::string_view line) {
  std::array<std::string_view, kColumns> words;
  std::size_t count = 0, at = 0;
  while ((at = line.find_first_not_of(' ', at)) != line.npos) {
    const std::size_t end = std::min(line.find(' ', at), line.size());
    if (count == kColumns) strange(line);
    words[count++] = line.substr(at, end - at);
    at = end;
  }
  if (count != kColumns) strange(line);
  return words;
}

uint64_t number(std::string_view word, std::string_view line) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc() || end != word.data() + word.size()) strange(line);
  return value;
}

}  // namespace

std::vector<KmemstatLine> parse_kmemstat(std::string_view text) {
  std::vector<KmemstatLine> lines;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    const auto words = words_of(line);
    if (words[0] == "NAME") continue;
    if (words[1] != "A" && words[1] != "S" && words[1] != "R") strange(line);
    lines.push_back({.name = std::string(words[0]),
                     .is_arena = words[1] == "A",
                     .is_references = words[1] == "R",
                     .object_size = number(words[2], line),
                     .total_bytes = number(words[3], line),
                     .allocated_bytes = number(words[4], line),
                     .live = number(words[5], line),
                     .allocations = number(words[6], line),
                     .frees = number(words[7], line),
                     .trace = std::string(words[8])});
  }
  if (lines.empty()) throw std::runtime_error(std::string(kFile) + " has no counts");
  return lines;
}

std::vector<KmemstatLine> read_kmemstat() {
  return parse_kmemstat(read_file(std::string(kFile)));
}
