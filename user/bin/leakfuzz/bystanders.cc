#include "bystanders.h"

#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <stele.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>

#include "abi/syscall.h"
#include "execute.h"

namespace {

constexpr int kInterval = 20;  // milliseconds between two computations of a bystander
// A bystander computes for so long, in nanoseconds: a quarter of a tick, so that a kernel that
// charges only in ticks charges most computations for nothing.
constexpr int64_t kComputes = 1'000'000;
// The least computing that is compared with the charge: a single computation proves little.
constexpr int64_t kLeastCompared = 8 * kComputes;
// The fuzzer waits so often for a report, kPause milliseconds each time; about ten seconds. Waits
// are counted instead of time, because the guest's time jumps when the host is busy.
constexpr unsigned kWaits = 500;
constexpr int kPause = 20;

struct Report {
  int64_t computed, charged;  // nanoseconds
};

int64_t nanoseconds(const abi_timespec& time) {
  return time.sec * 1'000'000'000 + time.nsec;
}

int64_t now(uint64_t clock = ABI_CLOCK_MONOTONIC) {
  abi_timespec time{};
  STELE_CALL(clock_gettime, clock, &time);
  return nanoseconds(time);
}

uint64_t switches() {
  abi_rusage own{};
  STELE_CALL(times, &own);
  return own.voluntary_switches + own.involuntary_switches;
}

// Computes for a moment. Adds the computing and what it is charged to the report, unless the
// process lost its CPU meanwhile.
void compute(Report& report) {
  const uint64_t before = switches();
  const int64_t charged = now(ABI_CLOCK_PROCESS_CPUTIME_ID), start = now();
  int64_t end;
  do {
    end = now();
  } while (end - start < kComputes);
  const int64_t charge = now(ABI_CLOCK_PROCESS_CPUTIME_ID) - charged;
  if (switches() != before) return;
  report.computed += end - start;
  report.charged += charge;
}

// The bystander's life. A byte in `requests` begins the work, the next byte ends it.
[[noreturn]] void live(int requests, int reports) {
  char byte;
  while (read(requests, &byte, 1) == 1) {
    Report report{};
    pollfd request{.fd = requests, .events = POLLIN, .revents = 0};
    while (poll(&request, 1, kInterval) == 0) compute(report);
    if (read(requests, &byte, 1) != 1 || write(reports, &report, sizeof report) < 0) break;
  }
  _exit(0);
}

void close_from(int lowest, int but, int but_also) {
  for (int fd = lowest; fd < 256; fd++) {
    if (fd != but && fd != but_also) close(fd);
  }
}

}  // namespace

Bystanders::Bystanders(const std::vector<uint32_t>& uids) {
  signal(SIGPIPE, SIG_IGN);  // programs end with SIGPIPE again (execute.cc)
  for (const uint32_t uid : uids) {
    int requests[2], reports[2];
    if (pipe2(requests, O_CLOEXEC) != 0 || pipe2(reports, O_CLOEXEC) != 0)
      throw std::runtime_error(std::string("no pipe for a bystander: ") + strerror(errno));
    const int pid = fork();
    if (pid < 0)
      throw std::runtime_error(std::string("no process for a bystander: ") + strerror(errno));
    if (pid == 0) {
      close_from(3, requests[0], reports[1]);
      setsid();
      if (uid != 0 && (setgroups(0, nullptr) != 0 || setgid(uid) != 0 || setuid(uid) != 0))
        _exit(1);
      live(requests[0], reports[1]);
    }
    close(requests[0]);
    close(reports[1]);
    bystanders_.push_back({uid, pid, requests[1], reports[0]});
  }
}

void Bystanders::begin() {
  for (const Bystander& bystander : bystanders_)
    static_cast<void>(write(bystander.requests, "b", 1));  // end() sees that it has ended
}

std::vector<std::string> Bystanders::end() {
  std::vector<std::string> found;
  for (const Bystander& bystander : bystanders_)
    static_cast<void>(write(bystander.requests, "e", 1));
  for (const Bystander& bystander : bystanders_) {
    const std::string name =
        "process " + std::to_string(bystander.pid) + " of user " + std::to_string(bystander.uid);
    pollfd arrived{.fd = bystander.reports, .events = POLLIN, .revents = 0};
    unsigned waits = 0;
    while (poll(&arrived, 1, kPause) <= 0 && ++waits < kWaits) continue;
    Report report;
    if (waits == kWaits) {
      found.push_back("starved " + name + " does not answer");
    } else if (read(bystander.reports, &report, sizeof report) != sizeof report) {
      found.push_back("death " + name + ", a bystander, has ended");
    } else if (report.computed >= kLeastCompared && report.charged < report.computed / 2) {
      found.push_back("uncharged " + name + " computed for " + std::to_string(report.computed) +
                      " ns, but was charged for " + std::to_string(report.charged));
    }
  }
  return found;
}
