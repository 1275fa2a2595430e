// Interruptible output to a slow device. A serial port, for example, takes long to send a few
// megabytes, so a signal must be able to end the write early.
#pragma once

#include <cstddef>
#include <string_view>

#include "arch/x86_64/time.h"
#include "sched/task.h"

inline constexpr size_t kWritePiece = 256;            // bytes
inline constexpr Nanoseconds kWritePause{1'000'000};  // between two tries

// Sends `data` in pieces of at most kWritePiece bytes, with one call of `send` for each piece.
// `send` returns the number of bytes that the device has accepted; if it has accepted none, it is
// asked again a moment later. Stops when a signal is pending, but not before the first bytes, so
// that repeated calls make progress. Returns the number of bytes sent; EINTR if there are none. The
// caller holds no lock.
template <typename Send>
Result<size_t> write_until_signal(std::string_view data, Send send) {
  size_t done = 0;
  while (done < data.size() && (done == 0 || !current_task()->interrupted)) {
    const size_t sent = send(data.substr(done, kWritePiece));
    done += sent;
    if (sent > 0) continue;
    const Result<void> slept = task_sleep_until(monotonic_now() + kWritePause);
    if (!slept && done == 0) return slept.error();
  }
  return done;
}
