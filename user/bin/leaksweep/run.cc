#include "run.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "tool/files.h"

extern char** environ;

namespace {

using std::chrono::milliseconds, std::chrono::steady_clock;

constexpr const char* kControl = "#debug/alloc";
constexpr milliseconds kPause(1);      // between two calls of look()
constexpr milliseconds kGrace(1000);   // time for which processes may outlive the shell
constexpr milliseconds kDying(10000);  // time for killed processes to end

[[noreturn]] void failed(const std::string& what) {
  throw std::runtime_error(what + ": " + std::strerror(errno));
}

int open_or_throw(const char* path, int flags) {
  const int file = open(path, flags | O_CLOEXEC);
  if (file < 0) failed(path);
  return file;
}

void pause_a_little() {
  const timespec time = {0, std::chrono::nanoseconds(kPause).count()};
  nanosleep(&time, nullptr);
}

// Reads the outcome of the last `failnext` command from #debug/alloc (docs/devices.md). Returns the
// PIDs of the live processes of the run. Until the child has written its own `failnext` command,
// #debug/alloc shows the outcome of the previous run. So each call overwrites what an earlier call
// has stored in `outcome`.
std::vector<pid_t> look(Outcome& outcome) {
  std::vector<pid_t> alive;
  outcome.failed = false;
  outcome.frames.clear();
  read_lines(kControl, [&](std::string_view line) {
    std::istringstream words{std::string(line)};
    std::string word, kind;
    words >> word >> kind;
    if (word != "sweep") return;
    if (kind == "processes") {
      words >> outcome.processes >> word;
      for (pid_t pid; words >> pid;) alive.push_back(pid);
    } else if (kind == "failed") {
      uint64_t process, allocation;
      words >> process >> allocation >> outcome.source >> outcome.size >> outcome.pid;
      std::getline(words >> std::ws, outcome.name);
      outcome.failed = true;
    } else if (kind == "frame") {
      words >> word;
      outcome.frames.push_back(word);
    }
  });
  return alive;
}

}  // namespace

Command::Command(std::string text, milliseconds limit)
    : text_(std::move(text)),
      limit_(limit),
      control_(open_or_throw(kControl, O_WRONLY)),
      nowhere_(open_or_throw("#null/null", O_RDWR)) {
  if (pipe2(refusal_, O_CLOEXEC | O_NONBLOCK) < 0) failed("no pipe");
}

Command::~Command() {
  for (const int file : {control_, nowhere_, refusal_[0], refusal_[1]}) close(file);
}

// Runs in the child. Writes `request`, a `failnext` command, to #debug/alloc. All memory is
// allocated before this write, because after the write the kernel counts the allocations of this
// process.
void Command::become(const std::string& request, bool loud) const {
  dup2(nowhere_, STDIN_FILENO);
  dup2(loud ? STDERR_FILENO : nowhere_, STDOUT_FILENO);
  if (!loud) dup2(nowhere_, STDERR_FILENO);
  const char* const arguments[] = {"sh", "-c", text_.c_str(), nullptr};
  if (write(control_, request.data(), request.size()) < 0) {
    const int error = errno;
    (void)!write(refusal_[1], &error, sizeof(error));
    _exit(127);
  }
  execve("/bin/sh", const_cast<char* const*>(arguments), environ);
  _exit(126);
}

// Waits until every process of the command has ended. Returns true if some had to be killed.
bool Command::wait(pid_t child, Outcome& outcome) const {
  auto end = steady_clock::now() + limit_;
  bool child_lives = true, killed = false;
  for (;;) {
    int status;
    if (child_lives && waitpid(child, &status, WNOHANG) == child) {
      child_lives = false;
      outcome.status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
      if (!killed) end = std::min(end, steady_clock::now() + kGrace);
    }
    const std::vector<pid_t> alive = look(outcome);
    if (!child_lives && alive.empty()) return killed;
    if (steady_clock::now() >= end) {
      if (std::exchange(killed, true)) {
        std::string pids;
        for (const pid_t pid : alive) pids += " " + std::to_string(pid);
        throw std::runtime_error("processes of the command cannot be killed:" + pids);
      }
      end = steady_clock::now() + kDying;
    }
    if (killed) {
      if (child_lives) kill(child, SIGKILL);
      for (const pid_t pid : alive) kill(pid, SIGKILL);
    }
    pause_a_little();
  }
}

void Command::check_accepted() const {
  int error;
  if (read(refusal_[0], &error, sizeof(error)) != sizeof(error)) return;
  throw std::runtime_error(std::string(kControl) + " refuses the request: " + std::strerror(error));
}

Outcome Command::run(const Target& target, bool loud) const {
  const std::string request = target.process == 0
                                  ? "failnext 0 process=1\n"
                                  : "failnext 1 after=" + std::to_string(target.allocation - 1) +
                                        " process=" + std::to_string(target.process) + "\n";
  const pid_t child = fork();
  if (child < 0) failed("no process for the command");
  if (child == 0) become(request, loud);
  Outcome outcome;
  outcome.hung = wait(child, outcome);
  check_accepted();
  return outcome;
}
