// Interruptible output to a slow device. A serial port, for example, takes long to send a few
// megabytes, so a signal must be able to end the write early.
#pragma once

#include <cstddef>
#include <string_view>

#include "sched/task.h"

inline constexpr size_t kWritePiece = 256;  // bytes

// Sends `data` in pieces of at most kWritePiece bytes, with one call of `send` for each piece.
// Stops when a signal is pending, but not before the first piece, so that repeated calls make
// progress. Returns the number of bytes sent. The caller holds no lock.
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
