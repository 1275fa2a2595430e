#include "tool/end_signals.h"

#include <poll.h>
#include <setjmp.h>
#include <signal.h>

#include <algorithm>

namespace {

// The handler leaves poll() by longjmp. A pipe to write to from the handler would also end poll(),
// but costs system calls, and a tool that shows the kernel's activity should cause little of it.
volatile sig_atomic_t ended = 0, waiting = 0;
jmp_buf end_of_wait;

void handle(int) {
  ended = 1;
  if (waiting == 0) return;
  waiting = 0;
  longjmp(end_of_wait, 1);
}

}  // namespace

EndSignals::EndSignals() {
  struct sigaction action = {};
  action.sa_handler = handle;
  action.sa_flags = SA_NODEFER;  // longjmp would leave a blocked signal blocked
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) sigaction(number, &action, nullptr);
  action.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &action, nullptr);
}

EndSignals::Wake EndSignals::wait_for_input(int input, std::chrono::milliseconds time) const {
  using std::chrono::steady_clock, std::chrono::milliseconds, std::chrono::ceil;
  const auto end = steady_clock::now() + time;
  pollfd file = {.fd = input, .events = POLLIN, .revents = 0};
  const nfds_t files = input < 0 ? 0 : 1;
  Wake wake = Wake::kTime;
  if (setjmp(end_of_wait) != 0) return Wake::kSignal;
  waiting = 1;
  while (ended == 0) {
    const auto left = ceil<milliseconds>(end - steady_clock::now()).count();
    constexpr long kLongest = 1'000'000'000;
    const int ready = poll(&file, files, static_cast<int>(std::clamp<long>(left, 0, kLongest)));
    if (ready > 0) wake = Wake::kInput;
    if (ready > 0 || left <= 0) break;
  }
  waiting = 0;
  return ended != 0 ? Wake::kSignal : wake;
}

bool EndSignals::wait(std::chrono::milliseconds time) const {
  return wait_for_input(-1, time) == Wake::kSignal;
}
