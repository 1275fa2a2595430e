/* Processes and their memory. */
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cancel.h"

_Noreturn void _exit(int status) {
  for (;;) stele_call(ABI_SYS_exit, status, 0, 0, 0, 0, 0);
}

int execve(const char* path, char* const argv[], char* const envp[]) {
  return (int)SYSCALL(execve, path, argv, envp);
}
int _execve(const char* path, char* const argv[], char* const envp[])
    __attribute__((alias("execve")));

pid_t wait4(pid_t pid, int* status, int options, struct rusage* usage) {
  struct abi_rusage abi;
  pid_t child = (pid_t)CANCELLABLE4(wait4, pid, status, options, usage != NULL ? &abi : NULL);
  if (child > 0 && usage != NULL) __stele_rusage(usage, &abi);
  return child;
}

int waitid(idtype_t which, id_t id, siginfo_t* info, int options) {
  return (int)CANCELLABLE6(waitid, which, id, info, options, NULL, 0);
}

pid_t wait3(int* status, int options, struct rusage* usage) {
  return wait4(-1, status, options, usage);
}
pid_t waitpid(pid_t pid, int* status, int options) {
  return wait4(pid, status, options, NULL);
}
pid_t wait(int* status) {
  return wait4(-1, status, 0, NULL);
}

pid_t getpid(void) {
  return (pid_t)SYSCALL(getpid);
}
pid_t getppid(void) {
  return (pid_t)SYSCALL(getppid);
}
pid_t getpgid(pid_t pid) {
  return (pid_t)SYSCALL(getpgid, pid);
}
pid_t getpgrp(void) {
  return getpgid(0);
}
int setpgid(pid_t pid, pid_t group) {
  return (int)SYSCALL(setpgid, pid, group);
}
int setpgrp(void) {
  return setpgid(0, 0);
}
pid_t getsid(pid_t pid) {
  return (pid_t)SYSCALL(getsid, pid);
}
pid_t setsid(void) {
  return (pid_t)SYSCALL(setsid);
}

void* mmap(void* address, size_t length, int protection, int flags, int fd, off_t offset) {
  return (void*)SYSCALL(mmap, address, length, protection, flags, fd, offset);
}
int munmap(void* address, size_t length) {
  return (int)SYSCALL(munmap, address, length);
}
int mprotect(void* address, size_t length, int protection) {
  return (int)SYSCALL(mprotect, address, length, protection);
}
int msync(void* address, size_t length, int flags) {
  return (int)CANCELLABLE3(msync, address, length, flags);
}

int uname(struct utsname* name) {
  return (int)SYSCALL(uname, name);
}

int gethostname(char* name, size_t size) {
  struct utsname all;
  if (uname(&all) < 0) return -1;
  strlcpy(name, all.nodename, size);
  return 0;
}

int getentropy(void* buffer, size_t size) {
  return (int)SYSCALL(getentropy, buffer, size);
}
int getpagesize(void) {
  return 4096;
}
