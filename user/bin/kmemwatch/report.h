// What kmemwatch prints.
#pragma once

#include <iosfwd>
#include <map>
#include <string>
#include <vector>

#include "arguments.h"
#include "judge.h"

struct Report {
  double seconds = 0;  // that it has watched
  std::vector<Growth> growths;
  std::map<std::string, std::string> traces;  // "off", "running", "stopped", by name
  uint64_t missed = 0;                        // samples that could not be taken
  bool judged = false;                        // there was a look
};

void print_heading(std::ostream& out, const Arguments& arguments, std::size_t sources);
// What grows, or did, and if it is to be verbose what comes next, as a table. std::runtime_error if
// it cannot be written.
void print_report(std::ostream& out, const Arguments& arguments, const Report& report);
