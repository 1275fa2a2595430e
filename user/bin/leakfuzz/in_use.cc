#include "in_use.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

namespace {

// Executes the file in a child, which is killed if that succeeds. True if the file is in use.
bool is_in_use(const std::string& path) {
  int failed[2];
  if (pipe2(failed, O_CLOEXEC) != 0) return false;
  const int pid = fork();
  if (pid == 0) {
    char* const arguments[] = {const_cast<char*>("x"), nullptr};
    execve(path.c_str(), arguments, arguments + 1);
    const int error = errno;
    static_cast<void>(write(failed[1], &error, sizeof error));
    _exit(1);
  }
  close(failed[1]);
  int error = 0;  // stays 0 if the pipe is closed by a successful execve
  if (pid > 0 && read(failed[0], &error, sizeof error) < 0) error = 0;
  close(failed[0]);
  if (pid > 0) {
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
  }
  return error == ETXTBSY;
}

}  // namespace

std::vector<std::string> files_in_use(const std::string& path) {
  std::vector<std::string> found;
  DIR* const directory = opendir(path.c_str());
  if (!directory) return found;
  while (const dirent* entry = readdir(directory)) {
    const std::string name = entry->d_name, inside = path + "/" + name;
    struct stat at;
    if (name == "." || name == ".." || lstat(inside.c_str(), &at) != 0) continue;
    if (S_ISDIR(at.st_mode)) {
      const auto more = files_in_use(inside);
      found.insert(found.end(), more.begin(), more.end());
    } else if (S_ISREG(at.st_mode) && chmod(inside.c_str(), 0700) == 0 && is_in_use(inside)) {
      found.push_back(inside);
    }
  }
  closedir(directory);
  return found;
}
