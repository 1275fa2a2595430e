/* libctest: runs in the guest and checks the functions of the C library. Prints TAP on standard
 * output. The exit status is 1 if a check fails. Other programs check what the library only passes
 * on to the kernel: files (filetest), processes and faults (proctest), signals, clocks and polls
 * (sigtest), memory (maptest), terminals and users (sessiontest), threads (threadtest). */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <stele.h>
#include <string.h>
#include <sys/select.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

#define FOLDER "/tmp/libctest"

static void files(void) {
  char buffer[64];
  mkdir(FOLDER, 0755);
  int fd = open(FOLDER "/b", O_RDWR | O_CREAT | O_TRUNC, 0640);
  CHECK(posix_close(fd, 2) == -1 && errno == EINVAL);
  CHECK(posix_close(fd, POSIX_CLOSE_RESTART) == 0 && close(fd) == -1 && errno == EBADF);
  CHECK(readlink(FOLDER "/b", buffer, sizeof buffer) == -1 && errno == EINVAL);

  FILE* stream = fopen(FOLDER "/lines", "w+");
  CHECK(stream != NULL && fprintf(stream, "one %d\ntwo %s %.2f\n", 1, "x", 2.5) == 17 &&
        fseek(stream, 0, SEEK_SET) == 0);
  char* line = NULL;
  size_t size = 0;
  CHECK(getline(&line, &size, stream) == 6 && strcmp(line, "one 1\n") == 0);
  CHECK(getline(&line, &size, stream) == 11 && strcmp(line, "two x 2.50\n") == 0);
  CHECK(getline(&line, &size, stream) == -1 && feof(stream));
  free(line);
  fclose(stream);

  struct dirent** names;
  int count = scandir(FOLDER, &names, NULL, alphasort);
  CHECK(count == 4 && strcmp(names[2]->d_name, "b") == 0 && strcmp(names[3]->d_name, "lines") == 0);
  CHECK(count == 4 && names[2]->d_type == DT_REG);
  for (int i = 0; i < count; i++) free(names[i]);
  free(names);

  CHECK(chdir(FOLDER) == 0 && getcwd(buffer, sizeof buffer) != NULL && strcmp(buffer, FOLDER) == 0);
  CHECK(getcwd(buffer, 3) == NULL && errno == ERANGE);
  char* full = realpath("../libctest/./b", NULL);
  CHECK(full != NULL && strcmp(full, FOLDER "/b") == 0);
  free(full);
  CHECK(rmdir(FOLDER) == -1 && errno == ENOTEMPTY);

  CHECK(mkdir("sub", 0755) == 0 && remove("sub") == 0 && remove("sub") == -1 && errno == ENOENT);

  CHECK(chdir("/") == 0 && unlink(FOLDER "/b") == 0 && unlink(FOLDER "/lines") == 0 &&
        rmdir(FOLDER) == 0);
}

static void jumps(void) {
  sigjmp_buf place;
  volatile int rounds = 0;
  sigset_t set;
  int value = sigsetjmp(place, 1);
  if (value < 3) {
    rounds++;
    sigfillset(&set);
    sigprocmask(SIG_SETMASK, &set, NULL);
    siglongjmp(place, value + 1);
  }
  sigprocmask(SIG_SETMASK, NULL, &set);
  CHECK(rounds == 3 && !sigismember(&set, SIGINT));
}

static void commands(void) {
  CHECK(system("exit 3") == 3 << 8);
  FILE* command = popen("echo from a pipe", "r");
  char text[32] = "";
  CHECK(command != NULL && fgets(text, sizeof text, command) != NULL &&
        strcmp(text, "from a pipe\n") == 0);
  CHECK(command != NULL && pclose(command) == 0);
}

static void memory(void) {
  char* big = malloc(3 << 20);
  CHECK(big != NULL);
  if (big != NULL) memset(big, 0x5a, 3 << 20);
  free(big);
  void* aligned = NULL;
  CHECK(posix_memalign(&aligned, 4096, 100) == 0 && (unsigned long)aligned % 4096 == 0);
  free(aligned);
}

static void waiting(void) {
  int ends[2];
  CHECK(pipe(ends) == 0);
  fd_set reading, writing;
  FD_ZERO(&reading);
  FD_ZERO(&writing);
  FD_SET(ends[0], &reading);
  FD_SET(ends[1], &writing);
  struct timeval second = {.tv_sec = 1};
  CHECK(select(ends[1] + 1, &reading, &writing, NULL, &second) == 1 &&
        !FD_ISSET(ends[0], &reading) && FD_ISSET(ends[1], &writing));
  close(ends[0]);
  close(ends[1]);
  struct timespec before, after;
  clock_gettime(CLOCK_MONOTONIC, &before);
  CHECK(usleep(30000) == 0 && clock_gettime(CLOCK_MONOTONIC, &after) == 0);
  CHECK((after.tv_sec - before.tv_sec) * 1000000000 + after.tv_nsec - before.tv_nsec >= 30000000);
  CHECK(time(NULL) > 50L * 365 * 24 * 3600);
}

static void system_and_terminal(void) {
  struct utsname name;
  CHECK(uname(&name) == 0 && strcmp(name.sysname, "Stele") == 0 &&
        strcmp(name.machine, "x86_64") == 0);
  int null = open("#null/null", O_RDWR);
  CHECK(!isatty(null) && errno == ENOTTY);
  close(null);
}

static void error_strings(void) {
  CHECK(open("#cons/nosuch/x", O_RDONLY) == -1);
  int fd = open("#cons/power", O_WRONLY);
  CHECK(fd >= 0 && write(fd, "nonsense", 8) == -1 && errno == EINVAL);
  CHECK(strcmp(errstr(), "power takes: off, halt, reboot") == 0);
  CHECK(strcmp(strerror(EINVAL), "Invalid argument: power takes: off, halt, reboot") == 0);
  CHECK(strcmp(strerror(ENOMEM), "Out of memory") == 0);
  close(fd);
  CHECK(close(fd) == -1 && errno == EBADF && errstr()[0] == '\0');
  CHECK(strcmp(strerror(EINVAL), "Invalid argument") == 0);
}

int main(void) {
  setvbuf(stdout, NULL, _IOLBF, BUFSIZ);
  files();
  jumps();
  commands();
  memory();
  waiting();
  system_and_terminal();
  error_strings();
  library();
  programs();
  trees();
  return tap_end();
}
