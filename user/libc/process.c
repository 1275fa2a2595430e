/* Processes and their memory. */
#include <errno.h>
#include <limits.h>
#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "syscall.h"

_Noreturn void _exit(int status) {
  for (;;) syscall6(ABI_SYS_exit, status, 0, 0, 0, 0, 0);
}

pid_t fork(void) {
  return (pid_t)SYSCALL0(fork);
}
pid_t vfork(void) {
  return fork();
}

int execve(const char* path, char* const argv[], char* const envp[]) {
  return (int)SYSCALL3(execve, path, argv, envp);
}
int _execve(const char* path, char* const argv[], char* const envp[])
    __attribute__((alias("execve")));

pid_t wait4(pid_t pid, int* status, int options, struct rusage* usage) {
  struct abi_rusage abi;
  pid_t child = (pid_t)SYSCALL4(wait4, pid, status, options, usage != NULL ? &abi : NULL);
  if (child > 0 && usage != NULL) __stele_rusage(usage, &abi);
  return child;
}

int waitid(idtype_t which, id_t id, siginfo_t* info, int options) {
  return (int)SYSCALL6(waitid, which, id, info, options, NULL, 0);
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
  return (pid_t)SYSCALL0(getpid);
}
pid_t getppid(void) {
  return (pid_t)SYSCALL0(getppid);
}
pid_t getpgid(pid_t pid) {
  return (pid_t)SYSCALL1(getpgid, pid);
}
pid_t getpgrp(void) {
  return getpgid(0);
}
int setpgid(pid_t pid, pid_t group) {
  return (int)SYSCALL2(setpgid, pid, group);
}
int setpgrp(void) {
  return setpgid(0, 0);
}
pid_t getsid(pid_t pid) {
  return (pid_t)SYSCALL1(getsid, pid);
}
pid_t setsid(void) {
  return (pid_t)SYSCALL0(setsid);
}

/* The heap. `heap_end` is where the kernel has it; 0 before the first call. */
static uintptr_t heap_end;

int brk(void* end) {
  heap_end = (uintptr_t)SYSCALL1(brk, end);
  if (heap_end == (uintptr_t)end) return 0;
  errno = ENOMEM;
  return -1;
}

void* sbrk(ptrdiff_t increment) {
  if (heap_end == 0) heap_end = (uintptr_t)SYSCALL1(brk, 0);
  uintptr_t old = heap_end;
  if (increment != 0 && brk((void*)(old + (uintptr_t)increment)) < 0) return (void*)-1;
  return (void*)old;
}

int posix_memalign(void** result, size_t alignment, size_t size) {
  if (alignment < sizeof(void*) || (alignment & (alignment - 1)) != 0) return EINVAL;
  void* memory = memalign(alignment, size);
  if (memory == NULL) return ENOMEM;
  *result = memory;
  return 0;
}

void* mmap(void* address, size_t length, int protection, int flags, int fd, off_t offset) {
  return (void*)SYSCALL6(mmap, address, length, protection, flags, fd, offset);
}
int munmap(void* address, size_t length) {
  return (int)SYSCALL2(munmap, address, length);
}

int uname(struct utsname* name) {
  return (int)SYSCALL1(uname, name);
}

int gethostname(char* name, size_t size) {
  struct utsname all;
  if (uname(&all) < 0) return -1;
  strlcpy(name, all.nodename, size);
  return 0;
}

int getentropy(void* buffer, size_t size) {
  return (int)SYSCALL2(getentropy, buffer, size);
}
int sched_yield(void) {
  return (int)SYSCALL0(yield);
}
int getpagesize(void) {
  return 4096;
}
int system(const char* command) {
  if (command == NULL) return 1;
  pid_t child = fork();
  if (child < 0) return -1;
  if (child == 0) {
    execl("/bin/sh", "sh", "-c", command, NULL);
    _exit(127);
  }
  int status;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return -1;
  }
  return status;
}
