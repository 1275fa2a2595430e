/* Becoming a process in the background. */
#include <fcntl.h>
#include <unistd.h>

int daemon(int stay, int keep_open) {
  pid_t child = fork();
  if (child < 0) return -1;
  if (child > 0) _exit(0);
  if (setsid() < 0) return -1;
  if (!stay && chdir("/") < 0) return -1;
  if (keep_open) return 0;
  int null = open("/dev/null", O_RDWR);
  if (null < 0) return -1;
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
    if (dup2(null, fd) < 0) return -1;
  }
  if (null > STDERR_FILENO) close(null);
  return 0;
}
