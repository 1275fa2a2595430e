#include "cxxtest.h"

#include <sys/wait.h>
#include <unistd.h>

#include <iostream>

static int number, failures;

void check(bool good, const char* what, const char* file, int line) {
  std::cout << (good ? "ok " : "not ok ") << ++number << " - " << what << '\n';
  if (good) return;
  failures++;
  std::cout << "# " << file << ":" << line << '\n';
}

int in_child(const std::function<void()>& body, std::string& errors) {
  int ends[2];
  if (pipe(ends) < 0) return -1;
  std::cout.flush();
  pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDERR_FILENO);
    close(ends[0]);
    close(ends[1]);
    body();
    _exit(0);
  }
  close(ends[1]);
  char buffer[256];
  ssize_t got;
  while ((got = read(ends[0], buffer, sizeof buffer)) > 0) errors.append(buffer, got);
  close(ends[0]);
  int status = -1;
  waitpid(child, &status, 0);
  return status;
}

int main() {
  test_text();
  test_containers();
  test_exceptions();
  test_statics();
  test_files_and_time();
  test_frames();
  std::cout << "1.." << number << std::endl;
  return failures != 0;
}
