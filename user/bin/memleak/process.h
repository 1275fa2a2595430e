// A process that runs, as #proc shows it.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

struct ProcessState {
  std::string path;        // of its program
  std::string build_id;    // the bytes of it
  bool has_ended = false;  // a zombie
};

// Nothing if there is no such process.
std::optional<ProcessState> process_state(pid_t pid);
