#include "format.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>

namespace {

constexpr std::array<std::string_view, 8> kUtf8 = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
constexpr std::array<std::string_view, 8> kAscii = {"_", ".", ":", "-", "=", "+", "*", "#"};

// Divides `number` by `unit` once or more often, until the quotient is below `unit`. Returns the
// quotient with one digit after the point, and a letter for the number of divisions: K for one, M
// for two, …
std::string with_unit(double number, double unit) {
  constexpr std::string_view kUnits = "KMGTPE";
  std::size_t index = 0;
  number /= unit;
  while (number >= unit - 0.05 && index + 1 < kUnits.size()) {
    number /= unit;
    index++;
  }
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f%c", number, kUnits[index]);
  return text;
}

std::string printable(std::string_view text) {
  std::string result(text);
  for (char& c : result)
    if (c < ' ' || c > '~') c = '?';
  return result;
}

std::string cut(std::string_view text, std::size_t width) {
  std::string result = printable(text.substr(0, width));
  if (text.size() > width && width > 0) result.back() = '~';
  return result;
}

}  // namespace

std::string short_count(int64_t number) {
  constexpr int64_t kAsTheyAre = 1'000'000;
  if (number > -kAsTheyAre && number < kAsTheyAre) return std::to_string(number);
  const std::string text = with_unit(std::abs(static_cast<double>(number)), 1000);
  return number < 0 ? '-' + text : text;
}

std::string signed_count(int64_t number) {
  return (number > 0 ? "+" : "") + short_count(number);
}

std::string short_bytes(uint64_t bytes) {
  constexpr uint64_t kAsTheyAre = 10'000;
  return bytes < kAsTheyAre ? std::to_string(bytes) : with_unit(static_cast<double>(bytes), 1024);
}

std::string short_rate(double a_second) {
  const double size = std::abs(a_second);
  if (size < 0.005) return "0";
  if (size >= 1000) return signed_count(std::llround(a_second));
  char text[32];
  std::snprintf(text, sizeof(text), size < 10 ? "%+.2f" : "%+.1f", a_second);
  return text;
}

std::string spark_line(std::span<const int64_t> values, std::size_t width, Glyphs glyphs) {
  const auto& heights = glyphs == Glyphs::kUtf8 ? kUtf8 : kAscii;
  if (values.size() > width) values = values.last(width);
  std::string line(width - values.size(), ' ');
  if (values.empty()) return line;
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  const double low = static_cast<double>(*least), high = static_cast<double>(*most);
  for (const int64_t value : values) {
    const double part = high > low ? (static_cast<double>(value) - low) / (high - low) : 0;
    line += heights[static_cast<std::size_t>(std::lround(part * (heights.size() - 1)))];
  }
  return line;
}

std::string left(std::string_view text, std::size_t width) {
  std::string result = cut(text, width);
  result.resize(width, ' ');
  return result;
}

std::string right(std::string_view text, std::size_t width) {
  const std::string result = cut(text, width);
  return std::string(width - result.size(), ' ') + result;
}

std::string clock_of(double seconds) {
  const long all = std::lround(std::max(seconds, 0.0));
  char text[48];
  std::snprintf(text, sizeof(text), "%ld:%02ld:%02ld", all / 3600, all / 60 % 60, all % 60);
  return text;
}
