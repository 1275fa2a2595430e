#include "execute.h"

#include <fcntl.h>
#include <signal.h>
#include <stele.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <stdexcept>

#include "abi/syscall.h"
#include "calls.h"
#include "pools.h"

namespace {

constexpr int kCoverage = 255;   // generate.cc never uses this descriptor
constexpr uint64_t kNudge = 20;  // milliseconds between two nudges, and between two kills
constexpr unsigned kNudges = 12;
constexpr unsigned kKills = 480;  // attempts to kill; about ten seconds
// The most forks of a process. A forked process starts with the count of its parent.
constexpr int kForks = 3;

void on_nudge(int) {}

void start_coverage() {
  static const char text[] = "start";
  STELE_CALL(write, kCoverage, reinterpret_cast<uint64_t>(text), sizeof text - 1);
}

// Tells a new thread where to start: the thread makes the calls of `program` from index `next` on.
struct Begins {
  const Program* program;
  size_t next;  // index of the next call
  Caller caller;
};
Begins begins[kThreadsToMake];
// made[i]: true if this process has made thread i. A forked process inherits the values, so it does
// not make the thread again.
bool made[kThreadsToMake];
// The number of calls that all programs have made, in memory that they share with the fuzzer.
uint64_t* calls_made = nullptr;
int forks = 0;  // forks of this process, plus the count that it started with

void touch(uint64_t address) {
  auto* const byte = reinterpret_cast<volatile char*>(address);
  *byte = *byte;
}

// Makes a program's calls from index `first` on, to the program's end or to its first exit.
void make_calls(const Program& program, size_t first, Caller caller) {
  uint64_t repetitions = 0;
  bool is_new = first != 0;
  for (size_t next = first; next < program.calls.size();) {
    const Call& call = program.calls[next++];
    uint64_t arguments[6] = {};
    for (size_t i = 0; i < call.arguments.size(); i++) {
      const Argument& argument = call.arguments[i];
      arguments[i] =
          argument.pool ? pool_value(argument.pool, argument.value, caller) : argument.value;
    }
    __atomic_fetch_add(calls_made, 1, __ATOMIC_RELAXED);
    if (call.number == kAgain) {
      if (repetitions++ < arguments[0]) next = first;
      continue;
    }
    if (call.number == kTouch) {
      touch(arguments[0]);
      continue;
    }
    if (call.number == kApart) {
      if (is_new) next = after_again(program, next);
      is_new = false;
      first = next;
      continue;
    }
    if (call.number == ABI_SYS_exit) break;
    if (call.number == ABI_SYS_fork && __atomic_fetch_add(&forks, 1, __ATOMIC_RELAXED) >= kForks)
      continue;
    if (call.number == ABI_SYS_thread_create) {
      size_t number;
      if (abi_thread* const thread = pool_thread(call.arguments[0], &number)) {
        if (__atomic_exchange_n(&made[number], true, __ATOMIC_RELAXED)) continue;
        begins[number] = {&program, next, caller};
        thread->argument = number;
      }
    }
    const long result = stele_call(call.number, arguments[0], arguments[1], arguments[2],
                                   arguments[3], arguments[4], arguments[5]);
    if (call.number != ABI_SYS_fork) continue;
    caller.last_child = result > 0 ? static_cast<int>(result) : 0;
    is_new = result == 0;
    if (is_new) start_coverage();
  }
}

void begin_thread(uint64_t number) {
  const Begins& how = begins[number];
  make_calls(*how.program, how.next, how.caller);
  STELE_CALL(thread_exit);
}

}  // namespace

uint64_t milliseconds() {
  abi_timespec now{};
  STELE_CALL(clock_gettime, ABI_CLOCK_MONOTONIC, reinterpret_cast<uint64_t>(&now));
  return static_cast<uint64_t>(now.sec * 1000 + now.nsec / 1000000);
}

uint64_t Executor::calls() const {
  return __atomic_load_n(calls_made, __ATOMIC_RELAXED);
}

void sleep_milliseconds(unsigned count) {
  const abi_timespec time{.sec = count / 1000,
                          .nsec = static_cast<int64_t>(count % 1000) * 1000000};
  STELE_CALL(nanosleep, ABI_CLOCK_MONOTONIC, 0, reinterpret_cast<uint64_t>(&time));
}

Executor::Executor(unsigned workers) : workers_(workers) {
  void* const shared =
      mmap(nullptr, sizeof *calls_made, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) throw std::runtime_error("no memory for the number of calls");
  calls_made = static_cast<uint64_t*>(shared);
  // Programs inherit this handler. Otherwise a nudge would kill a program that has no handler yet.
  signal(SIGUSR1, on_nudge);
  for (Worker& worker : workers_) worker.coverage = open("#coverage/places", O_RDWR | O_CLOEXEC);
  for (int fd = 0; fd < kCoverage; fd++) {
    if (fcntl(fd, F_GETFD) >= 0) highest_ = fd;
  }
}

void Executor::play(const Worker& worker, const Program& program) {
  setsid();
  const int null = open("#null/null", O_RDWR);
  if (worker.coverage >= 0) dup2(worker.coverage, kCoverage);
  for (int fd = 0; fd < 3; fd++) dup2(null, fd);
  for (int fd = 3; fd <= std::max(highest_, null); fd++) close(fd);
  if (chdir("/tmp/fuzz") != 0) _exit(1);
  umask(0);
  if (program.uid != 0 && (setgid(program.uid) != 0 || setuid(program.uid) != 0)) _exit(1);
  signal(SIGPIPE, SIG_DFL);  // the fuzzer ignores it
  set_thread_entry(begin_thread);
  start_coverage();
  make_calls(program, 0, {.last_child = 0, .uid = program.uid});
  // A program with an even number of calls waits for its threads. The exit of any other program
  // ends its threads, even in the middle of a call.
  if (program.calls.size() % 2 == 0) STELE_CALL(thread_exit);
  for (;;) STELE_CALL(exit, 0);
}

void Executor::start(Worker& worker, const Program& program) {
  for (;;) {
    worker.pid = fork();
    if (worker.pid >= 0) break;
    sleep_milliseconds(10);  // no memory at the moment
  }
  if (worker.pid == 0) play(worker, program);
  worker.program = &program;
  worker.next_nudge = milliseconds() + kNudge;
  worker.nudges = 0;
}

// Returns true if the worker's program has reached kernel code that no program reached before.
bool Executor::read_places(Worker& worker) {
  if (worker.coverage < 0) return false;
  uint64_t places[512];
  bool any = false;
  for (;;) {
    // Uses pread, because the program has the same open file, and its writes may move the position.
    const ssize_t size = pread(worker.coverage, places, sizeof places, worker.covered);
    if (size <= 0) return any;
    worker.covered += size;
    for (ssize_t i = 0; i < size / static_cast<ssize_t>(sizeof *places); i++)
      any |= places_.insert(places[i]).second;
  }
}

// Nudges or kills a program that takes long. Returns false if it does not die after kKills
// attempts. Attempts are counted instead of time, because the guest's time jumps when the host is
// busy.
bool Executor::hurry(Worker& worker, uint64_t now) {
  if (now < worker.next_nudge) return true;
  worker.next_nudge = now + kNudge;
  if (worker.nudges++ < kNudges) {
    kill(worker.pid, SIGUSR1);
    kill(worker.pid, SIGCONT);
  } else {
    kill(worker.pid, SIGKILL);
    kill(-worker.pid, SIGKILL);
  }
  return worker.nudges < kNudges + kKills;
}

int Executor::run(const std::vector<Program>& programs, size_t at_once,
                  const std::function<void(const Program&)>& before,
                  const std::function<void(const Program&)>& fresh) {
  size_t next = 0, active = 0;
  while (next < programs.size() || active > 0) {
    for (Worker& worker : workers_) {
      if (worker.pid != 0 || next == programs.size() || active == at_once) continue;
      before(programs[next]);
      start(worker, programs[next++]);
      active++;
    }
    bool idle = true;
    for (int pid; (pid = waitpid(-1, nullptr, WNOHANG)) > 0;) {
      for (Worker& worker : workers_) {
        if (worker.pid != pid) continue;
        idle = false;
        kill(-pid, SIGKILL);  // the other processes of its process group
        if (read_places(worker)) fresh(*worker.program);
        worker.pid = 0;
        active--;
      }
    }
    if (!idle) continue;
    const uint64_t now = milliseconds();
    for (Worker& worker : workers_) {
      if (worker.pid != 0 && !hurry(worker, now)) return worker.pid;
    }
    sleep_milliseconds(1);
  }
  return 0;
}
