// Waiting for signals that end a program.
#pragma once

#include <chrono>

// Once this object exists, SIGINT, SIGTERM, SIGHUP and SIGQUIT no longer end the program. They end
// a call of wait() or wait_for_input(). SIGPIPE is ignored: a write to a closed pipe fails. A
// program has at most one such object.
class EndSignals {
 public:
  EndSignals();
  EndSignals(const EndSignals&) = delete;
  EndSignals& operator=(const EndSignals&) = delete;
  // Returns true if a signal has come, or as soon as one comes within `time`; otherwise false.
  bool wait(std::chrono::milliseconds time) const;
  enum class Wake { kSignal, kInput, kTime };
  // Waits for a signal, or until the file `input` can be read or has ended, but no longer than
  // `time`. Returns what ended the wait: kSignal, kInput or kTime.
  Wake wait_for_input(int input, std::chrono::milliseconds time) const;
};
