// The output of kmemwatch.
#pragma once

#include <iosfwd>
#include <map>
#include <string>
#include <vector>

#include "arguments.h"
#include "judge.h"

// The contents of one report. A source is a cache or an arena.
struct Report {
  double seconds = 0;  // time watched so far
  std::vector<Growth> growths;
  std::map<std::string, std::string> traces;  // by source: "off", "running" or "stopped"
  uint64_t missed = 0;                        // failed samples
  bool judged = false;                        // true once a test for growth has run
};

void print_heading(std::ostream& out, const WatchArguments& arguments, std::size_t sources);
// Prints a table of the sources that grow or grew. With -v, the table also has up to ten other
// sources, those most likely to grow. Throws std::runtime_error if the output cannot be written.
void print_report(std::ostream& out, const WatchArguments& arguments, const Report& report);
