// Numbers and sparklines in columns of fixed width.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

enum class Glyphs { kAscii, kUtf8 };  // what the terminal can show

// "9999", "123456", "1.2M", "34.0G"; the units are powers of 1000. At most 7 characters.
std::string short_count(int64_t number);
// short_count() with a sign: "+12", "-3"; "0" has none. At most 8 characters.
std::string signed_count(int64_t number);
// "4096", "97.7K", "1.2M"; the units are powers of 1024. At most 7 characters.
std::string short_bytes(uint64_t bytes);
// A rate with its sign: "+0.05", "-12.3", "+1200"; "0". At most 8 characters.
std::string short_rate(double a_second);

// A sparkline of `width` columns: the values as heights between their minimum and their maximum,
// the last one at the right; blanks where there are no values. If all values are equal, all have
// the lowest height.
std::string spark_line(std::span<const int64_t> values, std::size_t width, Glyphs glyphs);

// The text, aligned left or right in exactly `width` columns: padded with blanks, or cut and ending
// in '~'. Every byte that is not printable ASCII becomes '?'.
std::string left(std::string_view text, std::size_t width);
std::string right(std::string_view text, std::size_t width);

// `seconds` as hours, minutes and seconds: "1:02:03".
std::string clock_of(double seconds);
