// The output of kmemwatch.
#pragma once

#include <iosfwd>
#include <map>
#include <string>
#include <vector>

#include "arguments.h"
#include "judge.h"

struct Report {
  double seconds = 0;  // watched so far
  std::vector<Growth> growths;
  std::map<std::string, std::string> traces;  // "off", "running", "stopped", by name
  uint64_t missed = 0;                        // failed samples
  bool judged = false;                        // there was a look
};

void print_heading(std::ostream& out, const Arguments& arguments, std::size_t sources);
// A table of the sources that grow or grew and, if verbose, of the next candidates.
// std::runtime_error if it cannot be written.
void print_report(std::ostream& out, const Arguments& arguments, const Report& report);
