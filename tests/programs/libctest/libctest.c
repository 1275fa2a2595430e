/* libctest: runs in the guest and checks the C library with this kernel's system calls. Prints TAP
 * on standard output. The exit status is 1 if a check fails. */
#include <dirent.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pwd.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <stele.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

/* An address that is mapped in no process. It is volatile to hide it from the compiler. */
static void* volatile nowhere = (void*)16;

#define FOLDER "/tmp/libctest"

static void files(void) {
  char buffer[64];
  struct stat status;
  mkdir(FOLDER, 0755);
  int fd = open(FOLDER "/a", O_RDWR | O_CREAT | O_TRUNC, 0640);
  CHECK(fd >= 0);
  CHECK(write(fd, "hello world", 11) == 11);
  CHECK(lseek(fd, 6, SEEK_SET) == 6);
  CHECK(read(fd, buffer, sizeof buffer) == 5 && memcmp(buffer, "world", 5) == 0);
  CHECK(pread(fd, buffer, 5, 0) == 5 && memcmp(buffer, "hello", 5) == 0);
  CHECK(pwrite(fd, "J", 1, 0) == 1 && lseek(fd, 0, SEEK_CUR) == 11);
  CHECK(fstat(fd, &status) == 0 && status.st_size == 11 && S_ISREG(status.st_mode));
  CHECK((status.st_mode & 0777) == 0640 && status.st_uid == 0);
  CHECK(ftruncate(fd, 3) == 0 && fstat(fd, &status) == 0 && status.st_size == 3);
  CHECK(fsync(fd) == 0);
  int copy = dup(fd);
  CHECK(copy > fd && fcntl(copy, F_GETFD) == 0);
  CHECK(fcntl(copy, F_SETFD, FD_CLOEXEC) == 0 && fcntl(copy, F_GETFD) == FD_CLOEXEC);
  CHECK((fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDWR);
  CHECK(fcntl(fd, F_DUPFD, 40) == 40 && close(40) == 0);
  close(copy);
  CHECK(posix_close(fd, 2) == -1 && errno == EINVAL);
  CHECK(posix_close(fd, POSIX_CLOSE_RESTART) == 0 && close(fd) == -1 && errno == EBADF);
  CHECK(open(FOLDER "/a", O_CREAT | O_EXCL | O_RDWR, 0600) == -1 && errno == EEXIST);
  CHECK(rename(FOLDER "/a", FOLDER "/b") == 0 && access(FOLDER "/a", F_OK) == -1 &&
        errno == ENOENT);
  CHECK(chmod(FOLDER "/b", 0400) == 0 && stat(FOLDER "/b", &status) == 0 &&
        (status.st_mode & 0777) == 0400);
  CHECK(readlink(FOLDER "/b", buffer, sizeof buffer) == -1 && errno == EINVAL);
  CHECK(link(FOLDER "/b", FOLDER "/c") == 0 && unlink(FOLDER "/c") == 0);

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

  /* Calls with a path relative to an open directory. Each of them, even a failed one, leaves the
   * current directory unchanged. */
  int folder = open(FOLDER, O_RDONLY | O_DIRECTORY);
  CHECK(chdir("/etc") == 0 && mkdirat(folder, "sub", 0755) == 0);
  fd = openat(folder, "sub/x", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  CHECK(fd > folder && close(fd) == 0 && fstatat(folder, "sub/x", &status, 0) == 0 &&
        S_ISREG(status.st_mode));
  CHECK(fchmodat(folder, "sub/x", 0444, 0) == 0 && stat(FOLDER "/sub/x", &status) == 0 &&
        (status.st_mode & 0777) == 0444);
  CHECK(openat(folder, "nosuch", O_RDONLY) == -1 && errno == ENOENT &&
        openat(77, "x", O_RDONLY) == -1 && errno == EBADF);
  CHECK(unlinkat(folder, "sub", 0) == -1 && errno == EISDIR && unlinkat(folder, "sub/x", 0) == 0);
  CHECK(unlinkat(folder, "sub", AT_REMOVEDIR) == 0 && faccessat(folder, "sub", F_OK, 0) == -1 &&
        errno == ENOENT);
  CHECK(openat(folder, "/etc/profile", O_RDONLY) == folder + 1 && close(folder + 1) == 0 &&
        close(folder) == 0);
  CHECK(getcwd(buffer, sizeof buffer) != NULL && strcmp(buffer, "/etc") == 0 && chdir(FOLDER) == 0);
  CHECK(mkdir("sub", 0755) == 0 && remove("sub") == 0 && remove("sub") == -1 && errno == ENOENT);

  CHECK(chdir("/") == 0 && unlink(FOLDER "/b") == 0 && unlink(FOLDER "/lines") == 0 &&
        rmdir(FOLDER) == 0);
}

static volatile sig_atomic_t caught;
static void on_signal(int signal) {
  caught = signal;
}

static void signals(void) {
  struct sigaction action = {.sa_handler = on_signal}, old;
  CHECK(sigaction(SIGUSR1, &action, &old) == 0 && old.sa_handler == SIG_DFL);
  CHECK(raise(SIGUSR1) == 0 && caught == SIGUSR1);
  CHECK(sigaction(SIGUSR1, NULL, &old) == 0 && old.sa_handler == on_signal);
  CHECK(sigaction(SIGKILL, &action, NULL) == -1 && errno == EINVAL);

  sigset_t set, before;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR1);
  caught = 0;
  CHECK(sigprocmask(SIG_BLOCK, &set, &before) == 0 && !sigismember(&before, SIGUSR1));
  CHECK(raise(SIGUSR1) == 0 && caught == 0);
  sigset_t none = before;
  CHECK(sigsuspend(&none) == -1 && errno == EINTR && caught == SIGUSR1);
  CHECK(sigprocmask(SIG_SETMASK, &before, &set) == 0 && sigismember(&set, SIGUSR1));

  /* A signal interrupts a blocking read. With SA_RESTART the read is resumed. */
  int ends[2];
  CHECK(pipe(ends) == 0);
  for (int restart = 0; restart < 2; restart++) {
    action.sa_flags = restart ? SA_RESTART : 0;
    sigaction(SIGUSR1, &action, NULL);
    caught = 0;
    pid_t child = fork();
    if (child == 0) {
      usleep(100000);
      kill(getppid(), SIGUSR1);
      usleep(100000);
      if (restart) write(ends[1], "x", 1);
      _exit(0);
    }
    char byte;
    ssize_t got = read(ends[0], &byte, 1);
    const int error = errno;
    if (restart) {
      CHECK(got == 1 && caught == SIGUSR1);
    } else {
      CHECK(got == -1 && error == EINTR && caught == SIGUSR1);
    }
    waitpid(child, NULL, 0);
  }
  signal(SIGPIPE, SIG_IGN);
  close(ends[0]);
  CHECK(write(ends[1], "x", 1) == -1 && errno == EPIPE);
  close(ends[1]);
  signal(SIGPIPE, SIG_DFL);
  signal(SIGUSR1, SIG_DFL);
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

static void processes(void) {
  int status;
  struct rusage usage;
  pid_t child = fork();
  if (child == 0) _exit(7);
  CHECK(child > 0 && wait4(child, &status, 0, &usage) == child && WIFEXITED(status) &&
        WEXITSTATUS(status) == 7);
  child = fork();
  if (child == 0) pause();
  CHECK(waitpid(child, &status, WNOHANG) == 0);
  CHECK(kill(child, SIGSTOP) == 0 && waitpid(child, &status, WUNTRACED) == child &&
        WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
  CHECK(kill(child, SIGCONT) == 0 && kill(child, SIGTERM) == 0 &&
        waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
  CHECK(wait(&status) == -1 && errno == ECHILD);
  CHECK(kill(child, 0) == -1 && errno == ESRCH);

  child = fork();
  if (child == 0) {
    *(volatile char*)nowhere = 1;
    _exit(0);
  }
  CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
  child = fork();
  if (child == 0) {
    /* A program cannot write to its code. The next child shows that it cannot execute its data. */
    *(volatile char*)(unsigned long)on_signal = 0;
    _exit(0);
  }
  CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
  child = fork();
  if (child == 0) {
    static char code[] = {(char)0xc3};
    ((void (*)(void))code)();
    _exit(0);
  }
  CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);

  CHECK(getpgrp() == getpgid(0) && getpgid(getpid()) == getpgrp());
  CHECK(getuid() == 0 && getpwuid(0) != NULL && strcmp(getpwuid(0)->pw_name, "root") == 0);
  CHECK(system("exit 3") == 3 << 8);
  FILE* command = popen("echo from a pipe", "r");
  char text[32] = "";
  CHECK(command != NULL && fgets(text, sizeof text, command) != NULL &&
        strcmp(text, "from a pipe\n") == 0);
  CHECK(command != NULL && pclose(command) == 0);
  child = fork();
  if (child == 0) {
    execlp("sh", "sh", "-c", "exit $(($# + 40))", "sh", "a", "b", (char*)NULL);
    _exit(1);
  }
  CHECK(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 42);
  CHECK(execl("/etc/profile", "x", (char*)NULL) == -1 && errno == EACCES);

  child = fork();
  if (child == 0) {
    int gave_up = setgid(65534) != 0 || setuid(65534) != 0;
    int back = setuid(0) == 0;
    int opened = open("#cons/power", O_WRONLY) >= 0;
    _exit(gave_up << 0 | back << 1 | opened << 2);
  }
  CHECK(waitpid(child, &status, 0) == child && status == 0);
}

static void memory(void) {
  char* big = malloc(3 << 20);
  CHECK(big != NULL);
  if (big != NULL) memset(big, 0x5a, 3 << 20);
  free(big);
  char* pages = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(pages != MAP_FAILED && pages[0] == 0 && pages[65535] == 0);
  pages[65535] = 7;
  int status;
  pid_t child = fork();
  if (child == 0) {
    pages[65535] = 9;
    _exit(pages[65535]);
  }
  CHECK(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 9 && pages[65535] == 7);
  CHECK(munmap(pages, 65536) == 0);
  CHECK(read(STDIN_FILENO, nowhere, 1) <= 0);
  CHECK(stat(nowhere, nowhere) == -1 && errno == EFAULT);
  CHECK(write(STDOUT_FILENO, (void*)0xffff800000000000, 1) == -1 && errno == EFAULT);
  void* aligned = NULL;
  CHECK(posix_memalign(&aligned, 4096, 100) == 0 && (unsigned long)aligned % 4096 == 0);
  free(aligned);
}

static void waiting(void) {
  int ends[2];
  char byte;
  CHECK(pipe2(ends, O_NONBLOCK) == 0 && read(ends[0], &byte, 1) == -1 && errno == EAGAIN);
  struct pollfd one = {.fd = ends[0], .events = POLLIN};
  CHECK(poll(&one, 1, 20) == 0);
  write(ends[1], "x", 1);
  CHECK(poll(&one, 1, -1) == 1 && one.revents == POLLIN);
  fd_set reading, writing;
  FD_ZERO(&reading);
  FD_ZERO(&writing);
  FD_SET(ends[0], &reading);
  FD_SET(ends[1], &writing);
  struct timeval second = {.tv_sec = 1};
  CHECK(select(ends[1] + 1, &reading, &writing, NULL, &second) == 2 && FD_ISSET(ends[0], &reading));
  close(ends[1]);
  CHECK(read(ends[0], &byte, 1) == 1 && read(ends[0], &byte, 1) == 0);
  close(ends[0]);

  struct timespec before, after;
  clock_gettime(CLOCK_MONOTONIC, &before);
  CHECK(usleep(30000) == 0 && clock_gettime(CLOCK_MONOTONIC, &after) == 0);
  CHECK((after.tv_sec - before.tv_sec) * 1000000000 + after.tv_nsec - before.tv_nsec >= 30000000);
  CHECK(time(NULL) > 50L * 365 * 24 * 3600);
  CHECK(clock_gettime(CLOCK_REALTIME, &before) == 0 && before.tv_sec - time(NULL) <= 1);
  CHECK(clock_gettime((clockid_t)99, &before) == -1 && errno == EINVAL);
  struct utsname name;
  CHECK(uname(&name) == 0 && strcmp(name.sysname, "Stele") == 0 &&
        strcmp(name.machine, "x86_64") == 0);
}

static void terminals(void) {
  int null = open("#null/null", O_RDWR), console = open("#cons/cons", O_RDWR);
  struct termios terminal;
  CHECK(!isatty(null) && errno == ENOTTY);
  CHECK(isatty(console) && tcgetattr(console, &terminal) == 0 && (terminal.c_lflag & ICANON));
  close(null);
  close(console);
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
  signals();
  jumps();
  processes();
  memory();
  waiting();
  terminals();
  error_strings();
  library();
  programs();
  trees();
  return tap_end();
}
