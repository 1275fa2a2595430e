#include "process.h"

#include <charconv>
#include <sstream>
#include <stdexcept>

#include "tool/files.h"

namespace {

std::string bytes_of(std::string_view digits) {
  std::string bytes;
  for (; digits.size() >= 2; digits.remove_prefix(2)) {
    unsigned value = 0;
    std::from_chars(digits.data(), digits.data() + 2, value, 16);
    bytes += static_cast<char>(value);
  }
  return bytes;
}

}  // namespace

std::optional<ProcessState> process_state(pid_t pid) {
  std::string status;
  try {
    status = read_file("#proc/" + std::to_string(pid) + "/status");
  } catch (const std::runtime_error&) {
    return {};
  }
  ProcessState state;
  std::istringstream lines(status);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t tab = line.find('\t');
    if (tab == line.npos) continue;
    const std::string key = line.substr(0, tab), value = line.substr(tab + 1);
    if (key == "State:") state.has_ended = value.starts_with("Z");
    if (key == "Path:") state.path = value;
    if (key == "Build:") state.build_id = bytes_of(value);
  }
  return state;
}
