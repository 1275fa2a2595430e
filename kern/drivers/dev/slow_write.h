// Writing to what takes its time, and may be given a user's megabytes: a serial port.
#pragma once

#include <cstddef>
#include <string_view>

#include "sched/task.h"

inline constexpr size_t kWritePiece = 256;  // bytes

// Calls `send` for one piece of `data` after the other, each of at most kWritePiece bytes, until a
// signal waits; how many bytes that were. At least one piece, so that a write goes on when it is
// tried again. The caller holds no lock.
template <typename Send>
size_t write_until_signal(std::string_view data, Send send) {
  size_t done = 0;
  while (done < data.size() && (done == 0 || !current_task()->interrupted)) {
    const std::string_view piece = data.substr(done, kWritePiece);
    send(piece);
    done += piece.size();
  }
  return done;
}
