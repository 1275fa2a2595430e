// The state of a process, from #proc/PID/status.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

struct ProcessState {
  std::string path;        // path of the program
  std::string build_id;    // the program's build id, as bytes
  bool has_ended = false;  // a zombie
};

// Returns nothing if there is no such process.
std::optional<ProcessState> process_state(pid_t pid);
