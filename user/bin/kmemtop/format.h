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
// A rate with its sign: "+0.05", "-12.3", "+1200"; zero is "0". At most 8 characters.
std::string short_rate(double a_second);

// A sparkline of `width` columns, with the last value at the right. The height of a value shows
// where it lies between the minimum and the maximum of the values. If all values are equal, all
// have the lowest height. Columns without a value are blank.
std::string spark_line(std::span<const int64_t> values, std::size_t width, Glyphs glyphs);

// Returns the text, aligned left or right in exactly `width` columns. A shorter text is padded with
// blanks. A longer text is cut and ends in '~'. Every byte that is not printable ASCII becomes '?'.
std::string left(std::string_view text, std::size_t width);
std::string right(std::string_view text, std::size_t width);

// `seconds` as hours, minutes and seconds: "1:02:03".
std::string clock_of(double seconds);
