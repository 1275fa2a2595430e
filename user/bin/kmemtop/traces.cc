#include "traces.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "tool/files.h"

namespace {

std::string command(const std::string& name, std::string_view words) {
  const std::string file = trace_file(name);
  if (const int error = write_command(file, words)) return file + ": " + std::strerror(error);
  return {};
}

}  // namespace

std::string trace_file(std::string_view name) {
  return "#mem/kmemtrace/" + std::string(name);
}

std::string toggle_trace(const std::string& name, std::string_view state) {
  return command(name, state == "running" ? "stop\n" : "start\n");
}

std::string end_trace(const std::string& name, std::string_view state) {
  if (state == "off" || state == "never") return {};
  return command(name, state == "running" ? "stop\nreset\n" : "reset\n");
}

std::string why_no_traces() {
  const std::string file = trace_file("ctl");
  if (access(file.c_str(), W_OK) == 0) return {};
  return file + ": " + std::strerror(errno) + ": counts only, no traces";
}
