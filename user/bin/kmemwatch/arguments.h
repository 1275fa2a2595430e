// The command line of kmemwatch.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

struct WatchArguments {
  std::chrono::milliseconds interval{500};        // between samples
  uint64_t samples_in_window = 40;                // samples in a window of level 0 (windows.h)
  double alpha = 0.01;                            // error budget of all looks (judge.h)
  std::optional<std::chrono::milliseconds> time;  // time until the end; not set: no end
  bool trace = false;                             // start the trace of each source that grows
  std::string trace_options;                      // the arguments of -o, each after a blank
  bool verbose = false;

  std::chrono::milliseconds window() const {
    return interval * static_cast<int64_t>(samples_in_window);
  }
};

// Parses the command line. After a bad argument, prints the error and ends the program.
WatchArguments parse_arguments(int argc, char** argv);
