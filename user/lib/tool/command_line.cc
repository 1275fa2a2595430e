#include "tool/command_line.h"

#include <getopt.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <iostream>
#include <sstream>

void CommandLine::bad(const std::string& what) const {
  std::cerr << usage << program << ": error: " << what << '\n';
  std::exit(2);
}

int CommandLine::options(int argc, char** argv, std::string_view description,
                         const std::vector<Option>& options, Order order) const {
  constexpr int kFirst = 256;  // getopt_long returns kFirst + i for options[i]
  std::string letters = order == Order::kOptionsFirst ? "+h" : "h";
  std::vector<option> names = {{"help", no_argument, nullptr, 'h'}};
  for (std::size_t i = 0; i < options.size(); i++) {
    const Option& one = options[i];
    const int number = kFirst + static_cast<int>(i);
    if (one.name != nullptr)
      names.push_back({one.name, one.take ? required_argument : no_argument, nullptr, number});
    if (one.letter == 0) continue;
    letters += one.letter;
    if (one.take) letters += ':';
  }
  names.push_back({});
  for (int got; (got = getopt_long(argc, argv, letters.c_str(), names.data(), nullptr)) != -1;) {
    if (got == 'h') {
      std::cout << usage << description;
      std::exit(0);
    }
    const auto found = got >= kFirst
                           ? options.begin() + (got - kFirst)
                           : std::find_if(options.begin(), options.end(),
                                          [&](const Option& one) { return one.letter == got; });
    if (found == options.end()) {  // getopt_long has printed the error
      std::cerr << usage;
      std::exit(2);
    }
    std::string name;
    if (found->letter != 0) name = std::string("-") + found->letter;
    if (found->letter != 0 && found->name != nullptr) name += '/';
    if (found->name != nullptr) name += std::string("--") + found->name;
    if (found->take)
      found->take(name, optarg);
    else
      found->set();
  }
  return optind;
}

void CommandLine::no_more(char** argv, int index) const {
  if (argv[index] != nullptr) bad("unrecognized arguments: " + std::string(argv[index]));
}

uint64_t CommandLine::number(std::string_view name, std::string_view text, uint64_t low,
                             uint64_t high) const {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size() && value >= low && value <= high)
    return value;
  bad("argument " + std::string(name) + ": \"" + std::string(text) + "\": a number from " +
      std::to_string(low) + " to " + std::to_string(high) + " is wanted");
}

double CommandLine::real(std::string_view name, std::string_view text, double low,
                         double high) const {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size() && value >= low && value <= high)
    return value;
  std::ostringstream range;
  range << low << " to " << high;
  bad("argument " + std::string(name) + ": \"" + std::string(text) + "\": a number from " +
      range.str() + " is wanted");
}

std::chrono::milliseconds CommandLine::seconds(std::string_view name, std::string_view text,
                                               double low, double high) const {
  using std::chrono::duration, std::chrono::milliseconds, std::chrono::round;
  return round<milliseconds>(duration<double>(real(name, text, low, high)));
}

uint64_t CommandLine::bytes(std::string_view name, std::string_view text, uint64_t low,
                            uint64_t high) const {
  constexpr std::string_view kUnits = "KMG";
  const std::size_t unit = text.empty() ? kUnits.npos : kUnits.find(text.back());
  if (unit == kUnits.npos) return number(name, text, low, high);
  const std::size_t shift = 10 * (unit + 1);
  return number(name, text.substr(0, text.size() - 1), (low + (1ul << shift) - 1) >> shift,
                high >> shift)
         << shift;
}
