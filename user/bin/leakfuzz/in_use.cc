#include "in_use.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

bool is_in_use(const std::string& path) {
  chmod(path.c_str(), 0700);
  int failed[2];
  if (pipe2(failed, O_CLOEXEC) != 0) return false;
  const int pid = fork();  // the child is killed if execve succeeds
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
