/* The exec functions, built on execve. As POSIX requires, the functions with a p in their name
 * search PATH. If the kernel does not recognize the file as a program (ENOEXEC), they run the file
 * with the shell. The other functions do neither.
 */
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "syscall.h"

extern char** environ;

/* Runs the script `path` with the shell: sh path argv[1] … */
static void exec_by_shell(const char* path, char* const argv[], char* const envp[]) {
  size_t count = 0;
  while (argv[count] != NULL) count++;
  if (count == 0) count = 1; /* argv has only the terminating NULL */
  char** with_shell = malloc((count + 2) * sizeof *with_shell);
  if (with_shell == NULL) return;
  with_shell[0] = "sh";
  with_shell[1] = (char*)path;
  for (size_t i = 1; i < count; i++) with_shell[i + 1] = argv[i];
  with_shell[count + 1] = NULL;
  execve("/bin/sh", with_shell, envp);
  free(with_shell);
}

static int exec_file(const char* path, char* const argv[], char* const envp[]) {
  execve(path, argv, envp);
  if (errno == ENOEXEC) exec_by_shell(path, argv, envp);
  return -1;
}

int execvpe(const char* file, char* const argv[], char* const envp[]) {
  if (file[0] == '\0') {
    errno = ENOENT;
    return -1;
  }
  if (strchr(file, '/') != NULL) return exec_file(file, argv, envp);
  const char* path = getenv("PATH");
  if (path == NULL) path = "/bin:/usr/bin";
  int denied = 0;
  for (;;) {
    size_t length = strcspn(path, ":");
    char full[PATH_MAX];
    if (length + 1 + strlen(file) < sizeof full) {
      memcpy(full, path, length);
      if (length > 0) full[length++] = '/'; /* an empty part is the current directory */
      strcpy(full + length, file);
      exec_file(full, argv, envp);
      if (errno == EACCES)
        denied = 1;
      else if (errno != ENOENT && errno != ENOTDIR && errno != ENXIO)
        return -1;
    }
    path += strcspn(path, ":");
    if (*path++ == '\0') break;
  }
  if (denied) return (int)__stele_fail(EACCES, "");
  return (int)__stele_fail(ENOENT, "");
}

int execv(const char* path, char* const argv[]) {
  return execve(path, argv, environ);
}
int execvp(const char* file, char* const argv[]) {
  return execvpe(file, argv, environ);
}

/* Collects the variable arguments in an array on the stack, argv, for the expression `call`. In
 * execle and execlpe, `call` takes envp from the arguments: envp follows the NULL that ends
 * argv. */
#define EXEC_LIST(first, call)                                            \
  va_list arguments;                                                      \
  va_start(arguments, first);                                             \
  size_t count = 1;                                                       \
  while (va_arg(arguments, char*) != NULL) count++;                       \
  va_end(arguments);                                                      \
  char* argv[count + 1];                                                  \
  va_start(arguments, first);                                             \
  argv[0] = (char*)(first);                                               \
  for (size_t i = 1; i <= count; i++) argv[i] = va_arg(arguments, char*); \
  char** envp = environ;                                                  \
  int result = (call);                                                    \
  va_end(arguments);                                                      \
  return result

int execl(const char* path, const char* first, ...) {
  EXEC_LIST(first, execve(path, argv, envp));
}
int execlp(const char* file, const char* first, ...) {
  EXEC_LIST(first, execvpe(file, argv, envp));
}
int execle(const char* path, const char* first, ...) {
  EXEC_LIST(first, (envp = va_arg(arguments, char**), execve(path, argv, envp)));
}
int execlpe(const char* file, const char* first, ...) {
  EXEC_LIST(first, (envp = va_arg(arguments, char**), execvpe(file, argv, envp)));
}

/* Asks the kernel for a path of the open file, and runs that path. */
int fexecve(int fd, char* const argv[], char* const envp[]) {
  char path[PATH_MAX];
  if (SYSCALL(fd2path, fd, path, sizeof path) < 0) return -1;
  return execve(path, argv, envp);
}
