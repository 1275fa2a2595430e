#include "traces.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <iostream>

#include "tool/files.h"

namespace {

constexpr const char* kFolder = "#mem/kmemtrace/";

}  // namespace

Traces::Traces(const WatchArguments& arguments)
    : command_("start" + arguments.trace_options + "\n") {
  if (!arguments.trace) return;
  const std::string ctl = std::string(kFolder) + "ctl";
  may_start_ = access(ctl.c_str(), W_OK) == 0;
  if (!may_start_)
    std::cerr << "kmemwatch: " << ctl << ": " << std::strerror(errno)
              << ": no trace can be started; watching without traces" << std::endl;
}

void Traces::start(const std::set<std::string>& growing,
                   std::map<std::string, std::string>& states) {
  if (!may_start_) return;
  for (const std::string& name : growing) {
    std::string& state = states[name];
    if (state != "off" || started_.contains(name)) continue;
    const std::string file = kFolder + name;
    if (const int error = write_command(file, command_)) {
      if (failed_.insert(name).second)
        std::cerr << "kmemwatch: " << file << ": " << std::strerror(error) << std::endl;
      continue;
    }
    started_.insert(name);
    failed_.erase(name);
    state = "running";
  }
}
