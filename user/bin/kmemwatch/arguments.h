// The command line of kmemwatch.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

struct Arguments {
  std::chrono::milliseconds interval{500};        // between samples
  uint64_t samples_in_window = 40;                // of the shortest windows
  double alpha = 0.01;                            // the chance of any false accusation
  std::optional<std::chrono::milliseconds> time;  // endless if not given
  bool trace = false;                             // start the trace of each source that grows
  std::string trace_options;                      // appended to `start`, with a blank before each
  bool verbose = false;

  std::chrono::milliseconds window() const {
    return interval * static_cast<int64_t>(samples_in_window);
  }
};

// Prints errors, and ends the program after one.
Arguments parse_arguments(int argc, char** argv);
