#include "tool/end_signals.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <stdexcept>

namespace {

int signal_pipe[2];  // the handler has nothing else by which to reach the one that waits

void handle(int) {
  const int error = errno;
  (void)!write(signal_pipe[1], "", 1);
  errno = error;
}

}  // namespace

EndSignals::EndSignals() {
  if (pipe2(signal_pipe, O_CLOEXEC | O_NONBLOCK) != 0) throw std::runtime_error("no pipe");
  struct sigaction action = {};
  action.sa_handler = handle;
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) sigaction(number, &action, nullptr);
  action.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &action, nullptr);
}

bool EndSignals::wait(std::chrono::milliseconds time) const {
  using std::chrono::steady_clock, std::chrono::milliseconds, std::chrono::ceil;
  const auto end = steady_clock::now() + time;
  for (;;) {
    const auto left = ceil<milliseconds>(end - steady_clock::now()).count();
    pollfd descriptor = {.fd = signal_pipe[0], .events = POLLIN, .revents = 0};
    constexpr long kLongest = 1'000'000'000;
    if (poll(&descriptor, 1, static_cast<int>(std::clamp<long>(left, 0, kLongest))) > 0) return true;
    if (left <= 0) return false;
  }
}
