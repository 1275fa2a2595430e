// The output of kmemwatch.
#pragma once

#include <iosfwd>
#include <map>
#include <string>
#include <vector>

#include "arguments.h"
#include "judge.h"

struct Report {
  double seconds = 0;  // time watched so far
  std::vector<Growth> growths;
  std::map<std::string, std::string> traces;  // for each source: "off", "running" or "stopped"
  uint64_t missed = 0;                        // failed samples
  bool judged = false;                        // true after the first look (judge.h)
};

void print_heading(std::ostream& out, const Arguments& arguments, std::size_t sources);
// Prints a table of the sources that grow or grew and, with -v, of the next candidates.
// std::runtime_error if the output cannot be written.
void print_report(std::ostream& out, const Arguments& arguments, const Report& report);
