#include "process_trace.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <vector>

#include "allocators.h"
#include "events.h"

namespace {

std::string name_of(pid_t pid) {
  return "process " + std::to_string(pid);
}

// The commands that set the session's options before its `start` command.
std::vector<std::string> options(const Arguments& arguments, pid_t pid) {
  std::vector<std::string> lines = {"pid " + std::to_string(pid), "stacks user"};
  if (arguments.min_size != 0) lines.push_back("min " + std::to_string(arguments.min_size));
  if (arguments.max_size != Arguments::kAnySize)
    lines.push_back("max " + std::to_string(arguments.max_size));
  if (arguments.sample != 0) lines.push_back("sample " + std::to_string(arguments.sample));
  // If there is a prefix, only functions with this prefix are traced, not mmap and munmap.
  if (arguments.prefix.empty()) lines.push_back("watch memory");
  return lines;
}

// Checks option -O: `object` must be the program that the process runs, or "c" (the C library).
// Programs are linked statically, so no other object file can contain their allocator.
void check_object(const std::string& object, pid_t pid, const std::string& build_id) {
  if (object.empty() || object == "c" || object == "/proc/" + std::to_string(pid) + "/exe") return;
  if (build_id.empty() || read_program(object).build_id != build_id) {
    throw std::runtime_error(
        "-O " + object + ": " + name_of(pid) +
        " does not run it, and a program's allocator is in the program itself");
  }
}

}  // namespace

OpenFile::OpenFile(const std::string& path) : number_(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
  if (number_ < 0) throw std::runtime_error(path + ": " + std::strerror(errno));
}
OpenFile::~OpenFile() {
  close(number_);
}

ProcessTrace::ProcessTrace(const Arguments& arguments, ProgramSymbols& symbols) {
  if (const auto own = process_state(getpid())) own_build_id_ = own->build_id;
  if (arguments.command) {
    child_ = std::make_unique<Child>(*arguments.command);
    pid_ = child_->pid();
    program_.path = child_->program();
  } else {
    pid_ = static_cast<pid_t>(*arguments.pid);
    const auto found = process_state(pid_);
    if (!found || found->has_ended) throw std::runtime_error("there is no " + name_of(pid_));
    program_ = *found;
  }
  const Program& program = symbols.program(program_.path);
  if (child_) program_.build_id = program.build_id;
  if (program.build_id != program_.build_id) {
    throw std::runtime_error(program_.path + ": it is not the file any more that " + name_of(pid_) +
                             " runs");
  }
  if (program.functions.empty()) {
    throw std::runtime_error(program_.path +
                             ": it has no symbol table, so nobody knows where its functions are");
  }
  check_object(arguments.object, pid_, program_.build_id);
  const AllocatorProbes probes = allocator_probes(program_.path, program, arguments.prefix);
  has_allocator_ = probes.allocates && probes.frees;
  if (!arguments.prefix.empty() && !has_allocator_) {
    throw std::runtime_error(program_.path + ": it has no " + arguments.prefix +
                             (probes.allocates ? "free" : "malloc"));
  }
  session_.command(probes.commands);
  session_.command(options(arguments, pid_));
  session_.command("start");
  if (arguments.trace) events_ = std::make_unique<OpenFile>(session_.file("events"));
}

void ProcessTrace::go() {
  if (child_) child_->go();
}

// Identifies a program by its build id, not by its path. Until its exec, the child is a fork of
// memleak and has memleak's build id.
ProcessTrace::State ProcessTrace::state() {
  const auto now = process_state(pid_);
  if (!now) return State::kEnded;
  const bool is_it =
      now->build_id == program_.build_id || (child_ && now->build_id == own_build_id_);
  if (!is_it) return State::kOtherProgram;
  return now->has_ended ? State::kEnded : State::kRuns;
}

std::string ProcessTrace::description() {
  const std::string name = name_of(pid_);
  switch (state()) {
    case State::kRuns:
      return name + " runs";
    case State::kOtherProgram:
      return name + " runs another program than " + program_.path;
    case State::kEnded:
      break;
  }
  if (!child_) return name + " has ended";
  const int status = child_->status();
  if (WIFSIGNALED(status)) return name + " was ended by signal " + std::to_string(WTERMSIG(status));
  return name + " has ended with status " + std::to_string(WEXITSTATUS(status));
}

void ProcessTrace::print_events(std::ostream& out, const EndSignals& signals) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::milliseconds kStep(100);  // between two checks of the process's state
  constexpr std::size_t kPiece = 64 * 1024;
  const std::unique_ptr<char[]> piece = std::make_unique<char[]>(kPiece);
  Events events;
  bool stopped = false;
  for (Clock::time_point next_look = Clock::now();;) {
    if (!stopped && Clock::now() >= next_look) {
      next_look = Clock::now() + kStep;
      stopped = signals.wait(std::chrono::milliseconds(0)) || state() != State::kRuns;
      if (stopped) session_.command("stop");  // events recorded before can still be read
    }
    pollfd waiting = {.fd = events_->number(), .events = POLLIN, .revents = 0};
    if (poll(&waiting, 1, kStep.count()) <= 0) continue;
    const ssize_t got = read(events_->number(), piece.get(), kPiece);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw std::runtime_error(session_.file("events") + ": " + std::strerror(errno));
    if (got == 0) return;
    if (!(out << events.add({piece.get(), static_cast<std::size_t>(got)})).flush()) {
      throw std::runtime_error("the output cannot be written");
    }
  }
}
