// Tests streams, strings, numbers and their formats.
#include <charconv>
#include <cmath>
#include <iomanip>
#include <limits>
#include <sstream>
#include <string_view>

#include "cxxtest.h"

using namespace std::string_literals;

static std::string formatted(const std::function<void(std::ostream&)>& write) {
  std::ostringstream out;
  write(out);
  return out.str();
}

static void formats() {
  CHECK(formatted([](auto& out) {
          out << 42 << ' ' << -7L << ' ' << 18446744073709551615ull << ' ' << true << 'c';
        }) == "42 -7 18446744073709551615 1c");
  CHECK(formatted([](auto& out) {
          out << std::hex << std::showbase << 255 << std::oct << ' ' << 8;
        }) == "0xff 010");
  CHECK(formatted([](auto& out) {
          out << std::setw(6) << std::setfill('*') << std::left << 12 << '|';
        }) == "12****|");
  CHECK(formatted([](auto& out) { out << 0.1 << ' ' << 1e100 << ' ' << 2.5f << ' ' << -0.0; }) ==
        "0.1 1e+100 2.5 -0");
  CHECK(formatted([](auto& out) {
          out << std::fixed << std::setprecision(3) << 3.14159 << ' ' << 1.0L / 3;
        }) == "3.142 0.333");
  CHECK(formatted([](auto& out) { out << std::setprecision(17) << 0.1; }) == "0.10000000000000001");
  CHECK(formatted([](auto& out) { out << std::setprecision(25) << 0.1L; }) ==
        "0.1000000000000000000013553");
  CHECK(formatted([](auto& out) {
          out << std::boolalpha << false << ' ' << std::quoted("a \"b\"");
        }) == "false \"a \\\"b\\\"\"");
  CHECK(formatted([](auto& out) {
          out << std::numeric_limits<double>::infinity() << ' '
              << std::numeric_limits<double>::quiet_NaN();
        }) == "inf nan");
}

static void reading() {
  std::istringstream in("17 0x1f 2.75 word\nrest of line\n99999999999");
  int number = 0, small = 0;
  unsigned hexadecimal = 0;
  double real = 0;
  std::string word, line;
  in >> number >> std::hex >> hexadecimal >> std::dec >> real >> word;
  CHECK(in && number == 17 && hexadecimal == 31 && real == 2.75 && word == "word");
  CHECK(std::getline(in, line) && line.empty() && std::getline(in, line) && line == "rest of line");
  CHECK(!(in >> small) && small == std::numeric_limits<int>::max());

  CHECK(std::to_string(-12) + "/" + std::to_string(1.5) == "-12/1.500000");
  CHECK(std::stoi("0x20", nullptr, 16) == 32 && std::stod("1e-3") == 0.001 &&
        std::stoull("18446744073709551615") + 1 == 0);
  char digits[32];
  auto [end, error] = std::to_chars(digits, digits + sizeof digits, 0.3);
  CHECK(error == std::errc() && std::string_view(digits, end) == "0.3");
  double back = 0;
  CHECK(std::from_chars(digits, end, back).ec == std::errc() && back == 0.3);
}

static void strings() {
  std::string text = "a string that does not fit into the object itself";
  CHECK(text.substr(2, 6) == "string" && text.find("fit") == 23 && text.rfind('t') == 44);
  text.replace(0, 1, "one").insert(0, ">").append(100, '.');
  CHECK(text.starts_with(">one string") && text.ends_with("...") && text.size() == 152);
  CHECK("abc"s < "abd"s && "x"s + 'y' == "xy" && L"wide"s.size() == 4);
  CHECK(std::hash<std::string>()("same") == std::hash<std::string_view>()("same"));
}

static void mathematics() {
  volatile double two = 2;
  CHECK(std::sqrt(two) > 1.41421356 && std::sqrt(two) < 1.41421357 && std::lround(2.5 * two) == 5);
  CHECK(std::abs(std::log2(8 * two) - 4) < 1e-12 && std::hypot(3, 4) == 5 &&
        std::round(-2.5) == -3);
  volatile long double big = 9007199254740993.0L;  // odd, and beyond the precision of a double
  CHECK(std::floor(big + 0.5L) == big && std::ceil(big - 0.5L) == big &&
        std::trunc(-big - 0.5L) == -big);
  CHECK(std::round(big + 0.5L) == big + 1 && std::llrint(big) == 9007199254740993ll &&
        std::fmod(big, 2.0L) == 1);
  int exponent = 0;
  CHECK(std::frexp(-6.0L * two, &exponent) == -0.75L && exponent == 4 &&
        std::ldexp(0.75L, exponent) == 12);
  CHECK(std::ilogb(big) == 53 && std::scalbn(1.0L, 16000) > std::numeric_limits<double>::max());
  CHECK(std::nextafter(1.0L, 2.0L) == 1.0L + std::numeric_limits<long double>::epsilon());
  CHECK(std::nextafter(std::nextafter(two + 0.0L, 0.0L), 3.0L) == 2 &&
        std::nextafter(0.0L, -1.0L) < 0);
  int quotient = 0;
  CHECK(std::remquo(7.0L * two, 4.0L, &quotient) == -2 && (quotient & 7) == 4 &&
        std::remainder(5.0L, 3.0L) == -1);
  long double whole = 0;
  CHECK(std::modf(-3.25L, &whole) == -0.25L && whole == -3 && std::fmax(1.0L, NAN) == 1 &&
        std::copysign(1.0L, -0.0L) == -1);
  CHECK(std::abs(std::sin(1.0L) - std::sin(1.0)) < 1e-15L &&
        std::abs(std::pow(10.0L, -3) - 0.001L) < 1e-17L);
}

void test_text() {
  formats();
  reading();
  strings();
  mathematics();
}
