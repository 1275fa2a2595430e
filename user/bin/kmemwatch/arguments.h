// What kmemwatch is told on its command line.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

struct Arguments {
  std::chrono::milliseconds interval{500};        // from one sample to the next
  uint64_t samples_in_window = 40;                // of the shortest windows
  double alpha = 0.01;                            // the chance of a false accusation, ever
  std::optional<std::chrono::milliseconds> time;  // how long; without an end if not given
  bool trace = false;                             // start the trace of what grows
  std::string trace_options;                      // behind `start`, with a blank before each
  bool verbose = false;

  std::chrono::milliseconds window() const {
    return interval * static_cast<int64_t>(samples_in_window);
  }
};

// Prints what is wrong and ends the program if it must.
Arguments parse_arguments(int argc, char** argv);
