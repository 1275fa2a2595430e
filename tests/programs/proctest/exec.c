/* execve: arguments, scripts, kept and reset state. */
#include "proctest.h"

static void handler(int signal) {
  (void)signal;
}

struct command {
  char* const* arguments;
  char* const* environment;
  const char* path;
};
static int run(void* argument) {
  struct command* command = argument;
  execve(command->path, command->arguments, command->environment);
  return errno;
}
/* Returns the exit code of the program, or the error of execve. */
static int exec(const char* path, char* const* arguments, char* const* environment) {
  struct command command = {arguments, environment, path};
  return WEXITSTATUS(in_child_with(run, &command));
}

int exec_helper(int argc, char** argv) {
  extern char** environ;
  const char* what = argc > 2 ? argv[2] : "";
  if (strcmp(what, "exit") == 0) return 0;
  if (strcmp(what, "arguments") == 0) { /* checks for arguments a "" c and environment X=y */
    int environment = environ[0] && strcmp(environ[0], "X=y") == 0 && !environ[1];
    return argc == 6 && strcmp(argv[3], "a") == 0 && argv[4][0] == 0 && strcmp(argv[5], "c") == 0 &&
                   !argv[6] && environment
               ? 42
               : 1;
  }
  if (strcmp(what, "user") == 0) { /* runs a program as a user who is not allowed to read it */
    char* const echo[] = {"echo", "as", "a", "user", NULL};
    if (setgid(65534) < 0 || setuid(65534) < 0 || open(argv[3], O_RDONLY) >= 0) return 1;
    execv(argv[3], echo);
    return 2;
  }
  if (strcmp(what, "modes") == 0) /* makes a file and a directory with all permission bits */
    return open(argv[3], O_WRONLY | O_CREAT, 07777) < 0 || mkdir(argv[4], 07777) < 0;
  if (strcmp(what, "name") == 0) { /* opens a file, renames another path, prints the file's name */
    char name[1024];
    int fd = open(argv[3], O_RDONLY);
    if (fd < 0 || rename(argv[4], argv[5]) < 0) return 1;
    int64_t length = STELE_CALL(fd2path, fd, name, sizeof name);
    printf("%s\n", length > 0 ? name : strerror((int)-length));
    return 0;
  }
  if (strcmp(what, "length") == 0) return strlen(argv[3]) == 100000 ? 43 : 1;
  if (strcmp(what, "state") == 0) { /* arguments: an open and a closed descriptor */
    if (fcntl(atoi(argv[3]), F_GETFD) < 0 || fcntl(atoi(argv[4]), F_GETFD) >= 0) return 2;
    struct abi_sigaction action;
    STELE_CALL(sigaction, SIGUSR1, 0, &action);
    if (action.handler != ABI_SIG_DFL) return 3;
    STELE_CALL(sigaction, SIGUSR2, 0, &action);
    if (action.handler != ABI_SIG_IGN) return 4;
    uint64_t mask = 0;
    STELE_CALL(sigprocmask, 0, 0, &mask);
    return mask == 1 << SIGHUP ? 44 : 5;
  }
  return 1;
}

static void write_script(const char* path, const char* text, int mode) {
  int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, mode);
  EXPECT(fd >= 0);
  EXPECT(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
  close(fd);
}

static int keeps_state(void* argument) {
  (void)argument;
  int open_one = open("/bin/sh", O_RDONLY), closed_one = open("/bin/sh", O_RDONLY | O_CLOEXEC);
  signal(SIGUSR1, handler);
  signal(SIGUSR2, SIG_IGN);
  uint64_t mask = 1 << SIGHUP;
  STELE_CALL(sigprocmask, 0, &mask, 0);
  char first[12], second[12];
  snprintf(first, sizeof first, "%d", open_one);
  snprintf(second, sizeof second, "%d", closed_one);
  char* arguments[] = {(char*)program, "helper", "state", first, second, NULL};
  execve(program, arguments, NULL);
  return 1;
}

void test_exec(void) {
  char* environment[] = {"X=y", NULL};
  char* arguments[] = {"proctest", "helper", "arguments", "a", "", "c", NULL};
  EXPECT(exec(program, arguments, environment) == 42);

  char* text = malloc(200001);
  memset(text, 'x', 200000);
  text[100000] = 0;
  char* length[] = {"proctest", "helper", "length", text, NULL};
  EXPECT(exec(program, length, NULL) == 43);
  text[100000] = 'x';
  text[200000] = 0;
  EXPECT(exec(program, length, NULL) == E2BIG);
  free(text);
  char** many = calloc(30001, sizeof *many);
  for (int i = 0; i < 30000; i++) many[i] = "";
  EXPECT(exec(program, many, NULL) == E2BIG);
  free(many);

  EXPECT(WEXITSTATUS(in_child_with(keeps_state, NULL)) == 44);

  char* script[] = {"ignored", "last", NULL};
  write_script("/tmp/proctest.script", "#!/bin/sh\nexit 46\n", 0755);
  EXPECT(exec("/tmp/proctest.script", script, NULL) == 46);
  write_script("/tmp/proctest.script", "#! \t/bin/sh  -e \nfalse\nexit 47\n", 0755);
  EXPECT(exec("/tmp/proctest.script", script, NULL) == 1);
  write_script("/tmp/proctest.inner", "#!/bin/sh\nexit $#\n", 0755);
  write_script("/tmp/proctest.script", "#!/tmp/proctest.inner x\n", 0755);
  EXPECT(exec("/tmp/proctest.script", script, NULL) == 3); /* arguments: x, script's path, last */
  write_script("/tmp/proctest.script", "#!/tmp/proctest.script\n", 0755);
  EXPECT(exec("/tmp/proctest.script", script, NULL) == ELOOP);
  write_script("/tmp/proctest.script", "#!/nowhere\n", 0755);
  EXPECT(exec("/tmp/proctest.script", script, NULL) == ENOENT);
  write_script("/tmp/proctest.script", "#!\n", 0755);
  EXPECT(exec("/tmp/proctest.script", script, NULL) == ENOEXEC);
  write_script("/tmp/proctest.script", "exit 3\n", 0755);
  EXPECT(exec("/tmp/proctest.script", script, NULL) == ENOEXEC);
  write_script("/tmp/proctest.script", "", 0755);
  EXPECT(exec("/tmp/proctest.script", script, NULL) == ENOEXEC);
  unlink("/tmp/proctest.script");
  write_script("/tmp/proctest.script", "#!/bin/sh\n", 0644);
  EXPECT(exec("/tmp/proctest.script", script, NULL) == EACCES);
  EXPECT(exec("/tmp", script, NULL) == EACCES);
  EXPECT(exec("/tmp/not there", script, NULL) == ENOENT);
  EXPECT(exec("/bin/sh/x", script, NULL) == ENOTDIR);

  /* Executes 400 broken ELF files. Each file is the beginning of this program with one byte of the
   * headers changed. execve may fail, or the program may run or die. */
  char head[512];
  int fd = open(program, O_RDONLY);
  EXPECT(read(fd, head, sizeof head) == sizeof head);
  close(fd);
  for (size_t i = 0; i < 400; i++) {
    fd = open("/tmp/proctest.elf", O_WRONLY | O_CREAT | O_TRUNC, 0755);
    char broken = (char)(head[i] ^ (i % 3 == 0 ? 0xff : i % 3 == 1 ? 0x80 : 0x01));
    write(fd, head, i);
    write(fd, &broken, 1);
    write(fd, head + i + 1, sizeof head - i - 1);
    close(fd);
    exec("/tmp/proctest.elf", script,
         NULL); /* any result is good if this program and the kernel survive */
  }
  unlink("/tmp/proctest.elf");
  unlink("/tmp/proctest.script");
  unlink("/tmp/proctest.inner");
}
