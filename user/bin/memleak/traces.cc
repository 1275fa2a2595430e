#include "traces.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cctype>
#include <cerrno>
#include <cstring>
#include <iostream>
#include <map>
#include <memory>
#include <sstream>
#include <stdexcept>

#include "tool/files.h"
#include "tool/kmemstat.h"

namespace {

const std::string kFolder = "/tmp/.memleak";
const std::string kStarted = kFolder + "/started";
const std::string kLock = kFolder + "/lock";

[[noreturn]] void failed(const std::string& what) {
  throw std::runtime_error(what + ": " + std::strerror(errno));
}

std::string trace_file(const std::string& name) {
  return "#mem/kmemtrace/" + name;
}
std::string own_file() {
  return kFolder + "/" + std::to_string(getpid());
}

bool make_file(const std::string& path, int flags, const std::string& text) {
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | flags, 0600);
  if (file < 0) return false;
  const bool all = write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  close(file);
  return all;
}

bool is_alive(pid_t pid) {
  return kill(pid, 0) == 0 || errno != ESRCH;
}

// Creates kFolder. Only the current user may write there, because memleak stops each trace that the
// file `started` lists.
void make_folder() {
  struct stat found;
  if (mkdir(kFolder.c_str(), 0700) != 0 && errno != EEXIST) failed(kFolder);
  if (stat(kFolder.c_str(), &found) != 0) failed(kFolder);
  if (!S_ISDIR(found.st_mode) || found.st_uid != getuid())
    throw std::runtime_error(kFolder + ": belongs to another user");
}

// A lock file. memleak holds it while it reads and changes the folder and the states of traces.
class Lock {
 public:
  Lock() {
    constexpr useconds_t kPause = 10'000;  // microseconds
    // A process creates the lock file and then writes its PID. After this number of pauses, the
    // writer of a file that is still empty counts as dead.
    constexpr int kPatience = 200;
    for (int empty = 0; !make_file(kLock, O_EXCL, std::to_string(getpid()));) {
      if (errno != EEXIST) failed(kLock);
      pid_t owner = 0;
      try {
        std::istringstream(read_file(kLock)) >> owner;
      } catch (const std::runtime_error&) {
        continue;  // the lock has just been released
      }
      if (owner > 0 ? !is_alive(owner) : ++empty > kPatience) unlink(kLock.c_str());
      usleep(kPause);
    }
  }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;
  ~Lock() { unlink(kLock.c_str()); }
};

std::set<std::string> words_of(const std::string& path) {
  std::set<std::string> words;
  if (access(path.c_str(), F_OK) != 0) return words;
  std::istringstream text(read_file(path));
  for (std::string word; text >> word;) words.insert(word);
  return words;
}

void write_started(const std::set<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += name + "\n";
  if (!make_file(kStarted, O_TRUNC, text)) failed(kStarted);
}

// True if another memleak runs. Removes the PID files of memleaks that have died.
bool others_run() {
  bool others = false;
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir(kFolder.c_str()), closedir);
  if (!folder) failed(kFolder);
  while (const dirent* entry = readdir(folder.get())) {
    if (std::isdigit(static_cast<unsigned char>(entry->d_name[0])) == 0) continue;
    const pid_t pid = std::stoi(entry->d_name);
    if (pid == getpid()) continue;
    if (is_alive(pid)) {
      others = true;
    } else {
      unlink((kFolder + "/" + entry->d_name).c_str());
    }
  }
  return others;
}

// Returns the trace state of each cache and arena: "off", "running", "stopped" or "never".
std::map<std::string, std::string> trace_states() {
  std::map<std::string, std::string> states;
  for (const KmemstatLine& line : read_kmemstat()) {
    if (!line.is_references) states[line.name] = line.trace;
  }
  return states;
}

// This arena allocates addresses for kernel stacks, not memory. It is traced only on request,
// because the memory of the stacks comes from the arena `page`, whose trace has the same call
// stacks.
constexpr const char* kAddresses = "kernel_virtual";

std::set<std::string> wanted_of(const Arguments& arguments,
                                const std::map<std::string, std::string>& states) {
  std::set<std::string> wanted;
  for (const auto& [name, state] : states) {
    if (arguments.sources.empty() && state != "never" && name != kAddresses) wanted.insert(name);
  }
  for (const std::string& name : arguments.sources) {
    const auto found = states.find(name);
    if (found == states.end())
      throw std::runtime_error(name +
                               ": no cache or arena has this name; #mem/kmemstat shows them");
    if (found->second == "never") throw std::runtime_error(name + ": it cannot be traced");
    wanted.insert(name);
  }
  return wanted;
}

std::string start_command(const Arguments& arguments) {
  std::string command = "start";
  if (arguments.min_size != 0) command += " min=" + std::to_string(arguments.min_size);
  if (arguments.max_size != Arguments::kAnySize)
    command += " max=" + std::to_string(arguments.max_size);
  if (arguments.sample != 0) command += " sample=" + std::to_string(arguments.sample);
  return command;
}

}  // namespace

Traces::Traces(const Arguments& arguments) {
  make_folder();
  const Lock lock;
  try {
    start(arguments);
  } catch (...) {
    leave();
    throw;
  }
}

Traces::~Traces() {
  try {
    const Lock lock;
    leave();
  } catch (const std::exception& error) {
    std::cerr << "memleak: " << error.what() << '\n';
  }
}

void Traces::start(const Arguments& arguments) {
  started_ = words_of(kStarted);
  if (!make_file(own_file(), 0, "")) failed(own_file());
  const auto states = trace_states();
  std::erase_if(started_, [&](const std::string& name) {
    const auto found = states.find(name);
    return found == states.end() || found->second == "off";
  });
  std::set<std::string> off;
  for (const std::string& name : wanted_of(arguments, states)) {
    if (states.at(name) == "off") off.insert(name);
  }
  // The names are written before the first start, so that the next memleak knows them if this one
  // is killed.
  started_.insert(off.begin(), off.end());
  write_started(started_);
  const std::string command = start_command(arguments);
  for (const std::string& name : off) {
    const int error = write_command(trace_file(name), command);
    if (error == 0) continue;
    // After EBUSY the trace is another program's, and leave() must not stop it.
    started_.erase(name);
    write_started(started_);
    if (error != EBUSY && error != ENOENT)
      throw std::runtime_error(trace_file(name) + ": " + std::strerror(error));
  }
}

void Traces::leave() {
  unlink(own_file().c_str());
  if (others_run()) return;
  for (const std::string& name : words_of(kStarted)) {
    const int error = write_command(trace_file(name), "stop\nreset\n");
    if (error != 0 && error != ENOENT)
      std::cerr << "memleak: " << trace_file(name) << ": " << std::strerror(error) << '\n';
  }
  unlink(kStarted.c_str());
}
