/* Passes addresses that a program must not use as pointer arguments of most system calls. */
#include "proctest.h"

/* A system call and the one pointer argument that is tested. */
struct pattern {
  int number;
  /* A dot for each argument before the tested one, then a letter that says how the kernel uses the
   * tested pointer: it reads memory (r), writes memory (w), or reads a path (p). */
  const char* kinds;
  long values[6]; /* valid arguments that make the kernel use the pointer */
};
static int file, directory, ends[2], console;

static long good_words[64]; /* zeros, writable */

static const long addresses[] = {
    1,
    8,
    0x10000000000,  /* not mapped */
    0x7ffffffff000, /* above user space */
    0x7fffffffffff,
    0x800000000000, /* not canonical */
    0x4141414141414141,
    (long)0xffff800000001000, /* the direct map */
    (long)0xffffc00000001000, /* kernel stacks */
    (long)0xffffffff80200000, /* the kernel */
    -8,
    -1,
};

static void check(int number, const struct pattern* pattern, int argument, long address) {
  long a[6];
  memcpy(a, pattern->values, sizeof a);
  a[argument] = address;
  long result = stele_call(number, a[0], a[1], a[2], a[3], a[4], a[5]);
  if (result == -EFAULT) return;
  printf("# call %d, argument %d = 0x%lx: %ld, not EFAULT\n", number, argument,
         (unsigned long)address, result);
  test_failures++;
}

static int try_calls(void* argument) {
  (void)argument;
  const long good = (long)good_words;
  const long path = (long)"/tmp";
  const struct pattern patterns[] = {
      {ABI_SYS_execve, "p", {path, 0, 0}},
      {ABI_SYS_execve, ".r", {(long)program, good, 0}},
      {ABI_SYS_execve, "..r", {(long)program, good, good}},
      {ABI_SYS_open, ".p", {ABI_AT_FDCWD, path, 0, 0}},
      {ABI_SYS_read, ".w", {file, good, 100}},
      {ABI_SYS_read, ".w", {file, good, 10000}},
      {ABI_SYS_write, ".r", {ends[1], good, 100}},
      {ABI_SYS_write, ".r", {ends[1], good, 100000}},
      {ABI_SYS_pread, ".w", {file, good, 100, 0}},
      {ABI_SYS_pwrite, ".r", {file, good, 100, 0}},
      {ABI_SYS_pipe2, "w", {good, 0}},
      {ABI_SYS_fstat, ".w", {file, good}},
      {ABI_SYS_stat, ".p", {ABI_AT_FDCWD, path, good}},
      {ABI_SYS_stat, "..w", {ABI_AT_FDCWD, path, good}},
      {ABI_SYS_getdents, ".w", {directory, good, 512}},
      {ABI_SYS_access, ".p", {ABI_AT_FDCWD, path, 0}},
      {ABI_SYS_chdir, "p", {path}},
      {ABI_SYS_getcwd, "w", {good, 512}},
      {ABI_SYS_fd2path, ".w", {directory, good, 512}},
      {ABI_SYS_mkdir, ".p", {ABI_AT_FDCWD, path, 0}},
      {ABI_SYS_unlink, ".p", {ABI_AT_FDCWD, path, 0}},
      {ABI_SYS_rename, ".p", {ABI_AT_FDCWD, path, ABI_AT_FDCWD, path}},
      {ABI_SYS_rename, "...p", {ABI_AT_FDCWD, path, ABI_AT_FDCWD, path}},
      {ABI_SYS_link, ".p", {ABI_AT_FDCWD, path, ABI_AT_FDCWD, path, 0}},
      {ABI_SYS_link, "...p", {ABI_AT_FDCWD, path, ABI_AT_FDCWD, path, 0}},
      {ABI_SYS_symlink, "p", {path, ABI_AT_FDCWD, path}},
      {ABI_SYS_symlink, "..p", {path, ABI_AT_FDCWD, path}},
      {ABI_SYS_readlink, ".p", {ABI_AT_FDCWD, path, good, 100}},
      {ABI_SYS_mknod, ".p", {ABI_AT_FDCWD, path, S_IFIFO}},
      {ABI_SYS_chmod, ".p", {ABI_AT_FDCWD, path, 0777, 0}},
      {ABI_SYS_chown, ".p", {ABI_AT_FDCWD, path, -1, -1, 0}},
      {ABI_SYS_utimens, ".p", {ABI_AT_FDCWD, path, 0, 0}},
      {ABI_SYS_utimens, "..r", {ABI_AT_FDCWD, path, good, 0}},
      {ABI_SYS_statfs, ".p", {ABI_AT_FDCWD, path, good, 0}},
      {ABI_SYS_statfs, "..w", {ABI_AT_FDCWD, path, good, 0}},
      {ABI_SYS_truncate, "p", {path, 0}},
      {ABI_SYS_bind, "p", {path, path, 0}},
      {ABI_SYS_bind, ".p", {path, path, 0}},
      {ABI_SYS_unmount, "p", {path}},
      {ABI_SYS_sigaction, ".r", {SIGUSR1, good, 0}},
      {ABI_SYS_sigaction, "..w", {SIGUSR1, 0, good}},
      {ABI_SYS_sigprocmask, ".r", {1, good, 0}},
      {ABI_SYS_sigprocmask, "..w", {1, 0, good}},
      {ABI_SYS_sigsuspend, "r", {good}},
      {ABI_SYS_nanosleep, "..r", {ABI_CLOCK_MONOTONIC, 0, good, 0}},
      {ABI_SYS_clock_gettime, ".w", {ABI_CLOCK_REALTIME, good, 0}},
      {ABI_SYS_clock_gettime, "..w", {ABI_CLOCK_REALTIME, 0, good}},
      {ABI_SYS_clock_settime, ".r", {ABI_CLOCK_REALTIME, good}},
      {ABI_SYS_sigpending, "w", {good}},
      {ABI_SYS_sigtimedwait, "r", {good, 0, 0}},
      {ABI_SYS_sigtimedwait, "..r", {good, 0, good}},
      {ABI_SYS_sigaltstack, "r", {good, 0}},
      {ABI_SYS_sigaltstack, ".w", {0, good}},
      {ABI_SYS_setitimer, ".r", {ABI_ITIMER_REAL, good, 0}},
      {ABI_SYS_setitimer, "..w", {ABI_ITIMER_REAL, 0, good}},
      {ABI_SYS_timer_create, ".r", {ABI_CLOCK_MONOTONIC, good}},
      {ABI_SYS_timer_settime, "..r", {0, 0, good, 0}},
      {ABI_SYS_timer_gettime, ".w", {0, good}},
      {ABI_SYS_rlimit, ".r", {ABI_RLIMIT_CPU, good, 0}},
      {ABI_SYS_rlimit, "..w", {ABI_RLIMIT_CPU, 0, good}},
      {ABI_SYS_times, "w", {good, 0}},
      {ABI_SYS_times, ".w", {0, good}},
      {ABI_SYS_errstr, "w", {good, 128}},
      {ABI_SYS_uname, "w", {good}},
      {ABI_SYS_getentropy, "w", {good, 256}},
      {ABI_SYS_poll, "r", {good, 4, 0}},
      {ABI_SYS_poll, "..r", {good, 0, good}},
      {ABI_SYS_poll, "...r", {good, 0, 0, good}},
      {ABI_SYS_ioctl, "..w", {console, ABI_TCGETS, good}},
      {ABI_SYS_ioctl, "..r", {console, ABI_TCSETS, good}},
      {ABI_SYS_ioctl, "..w", {console, ABI_TCGPGRP, good}},
      {ABI_SYS_ioctl, "..r", {console, ABI_TCSPGRP, good}},
      {ABI_SYS_ioctl, "..w", {console, ABI_TCGWINSZ, good}},
  };
  /* The memory after `page` is unmapped, so that a structure can begin on `page` and end on
   * unmapped memory. */
  char* page = (char*)STELE_CALL(mmap, 0, 8192, ABI_PROT_READ | ABI_PROT_WRITE,
                                 ABI_MAP_PRIVATE | ABI_MAP_ANONYMOUS, -1, 0);
  char* read_only =
      (char*)STELE_CALL(mmap, 0, 4096, ABI_PROT_READ, ABI_MAP_PRIVATE | ABI_MAP_ANONYMOUS, -1, 0);
  STELE_CALL(munmap, page + 4096, 4096);
  memset(page, 'x', 4096);
  /* Timer 0, for timer_settime and timer_gettime. */
  EXPECT(STELE_CALL(timer_create, ABI_CLOCK_MONOTONIC, 0) == 0);
  for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
    const struct pattern* pattern = &patterns[i];
    const int argument = (int)strlen(pattern->kinds) - 1;
    const char kind = pattern->kinds[argument];
    for (size_t j = 0; j < sizeof addresses / sizeof *addresses; j++)
      check(pattern->number, pattern, argument, addresses[j]);
    /* errstr is left out: the error string is empty, so its one byte fits on the page. */
    if (pattern->number != ABI_SYS_errstr)
      check(pattern->number, pattern, argument, (long)page + 4096 - (kind == 'p' ? 3 : 1));
    if (kind == 'w') {
      check(pattern->number, pattern, argument, (long)read_only);
      check(pattern->number, pattern, argument, (long)&try_calls);
    }
    /* Arrays with a bad pointer to a string. */
    if (pattern->number == ABI_SYS_execve && kind == 'r') {
      for (size_t j = 0; j < sizeof addresses / sizeof *addresses; j++) {
        long array[2] = {addresses[j], 0};
        check(pattern->number, pattern, argument, (long)array);
      }
    }
  }
  /* wait4 is tested separately, since it needs a child. */
  if (fork() == 0) _exit(0);
  EXPECT(STELE_CALL(wait4, -1, 0x10000000000, 0) == -EFAULT);
  if (fork() == 0) _exit(0);
  EXPECT(STELE_CALL(wait4, -1, 0, 0, 0x10000000000) == -EFAULT);
  for (long number = ABI_SYS_COUNT; number < ABI_SYS_COUNT + 200; number++)
    EXPECT(stele_call(number, 1, 2, 3, 4, 5, 6) == -ENOSYS);
  EXPECT(stele_call(-1, 0, 0, 0, 0, 0, 0) == -ENOSYS &&
         stele_call(1L << 32, 0, 0, 0, 0, 0, 0) == -ENOSYS);
  return 0;
}

void test_bad_pointers(void) {
  file = open("/tmp/proctest.file", O_RDWR | O_CREAT | O_TRUNC, 0644);
  static char block[20000];
  write(file, block, sizeof block);
  lseek(file, 0, SEEK_SET);
  directory = open("/bin", O_RDONLY);
  console = open("#cons/cons", O_RDWR);
  EXPECT(file >= 0 && directory >= 0 && console >= 0 && pipe(ends) == 0);
  EXPECT(in_child_with(try_calls, NULL) == 0);
  close(file);
  close(directory);
  close(console);
  close(ends[0]);
  close(ends[1]);
  unlink("/tmp/proctest.file");
}
