#include "child.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <stdexcept>

#include "tool/files.h"

namespace {

bool can_run(const std::string& path) {
  struct stat found;
  return stat(path.c_str(), &found) == 0 && S_ISREG(found.st_mode) &&
         access(path.c_str(), X_OK) == 0;
}

std::string find_program(const std::string& name) {
  if (name.find('/') != name.npos) {
    if (can_run(name)) return name;
    throw std::runtime_error(name + ": " + std::strerror(errno != 0 ? errno : EACCES));
  }
  const char* const path = std::getenv("PATH");
  std::istringstream folders(path != nullptr ? path : "/bin");
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::string program = (folder.empty() ? "." : folder) + "/" + name;
    if (can_run(program)) return program;
  }
  throw std::runtime_error(name + ": there is no such program");
}

// Returns the ELF file that runs for `path`. As in the kernel, a script's interpreter may be a
// script, too.
std::string interpreter_of(std::string path) {
  constexpr int kMostInterpreters = 8;
  for (int i = 0; i < kMostInterpreters; i++) {
    const std::string text = read_file(path);
    if (!text.starts_with("#!")) break;
    std::istringstream line(text.substr(2, text.find('\n') - 2));
    line >> path;
  }
  return path;
}

void put_byte(int file) {
  while (write(file, "", 1) < 0 && errno == EINTR) {
  }
}

}  // namespace

Child::Child(const std::string& command) {
  std::istringstream text(command);
  for (std::string word; text >> word;) words_.push_back(word);
  if (words_.empty()) throw std::runtime_error("the command of -c is empty");
  path_ = find_program(words_[0]);
  program_ = interpreter_of(path_);
  int may_go[2], failure[2];
  if (pipe2(may_go, O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
  if (pipe2(failure, O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
  pid_ = fork();
  if (pid_ == 0) {
    close(may_go[1]);
    close(failure[0]);
    run(may_go[0], failure[1]);
  }
  close(may_go[0]);
  close(failure[1]);
  go_ = may_go[1];
  failure_ = failure[0];
  if (pid_ < 0) throw std::runtime_error(path_ + ": no process for it");
}

Child::~Child() {
  close(go_);
  close(failure_);
}

// Runs in the child. Sets signals to their defaults first, because a signal that ends memleak
// before the exec must also end the child.
void Child::run(int may_go, int failure) const {
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE}) signal(number, SIG_DFL);
  std::vector<char*> arguments;
  for (const std::string& word : words_) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  char byte;
  ssize_t got;
  do {
    got = read(may_go, &byte, 1);
  } while (got < 0 && errno == EINTR);
  if (got != 1) _exit(0);
  execv(path_.c_str(), arguments.data());
  const int error = errno;
  (void)!write(failure, &error, sizeof(error));
  _exit(127);
}

void Child::go() {
  put_byte(go_);
  int error = 0;
  ssize_t got;
  do {
    got = read(failure_, &error, sizeof(error));
  } while (got < 0 && errno == EINTR);
  if (got > 0) throw std::runtime_error(path_ + ": " + std::strerror(error));
}

int Child::status() {
  int status = 0;
  if (!status_ && waitpid(pid_, &status, 0) == pid_) status_ = status;
  return status_.value_or(0);
}
