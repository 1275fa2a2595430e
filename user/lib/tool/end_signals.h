// Signals that end a program, as something that can be waited for.
#pragma once

#include <chrono>

// From its construction on SIGINT, SIGTERM, SIGHUP and SIGQUIT do nothing but end wait(), and
// closed output does nothing but make writes fail. One for each program.
class EndSignals {
 public:
  EndSignals();
  EndSignals(const EndSignals&) = delete;
  EndSignals& operator=(const EndSignals&) = delete;
  // True if one has come, or comes within this time (then at once).
  bool wait(std::chrono::milliseconds time) const;
  // The same, but it also ends when the file `input` can be read, or has ended.
  enum class Wake { kSignal, kInput, kTime };
  Wake wait_for_input(int input, std::chrono::milliseconds time) const;
};
