/* maptest: runs in the guest and tests mmap.
 *
 * maptest FOLDER: checks mappings of memory, and of files that it creates in the empty FOLDER.
 * Prints TAP on standard output. The exit status is 1 if a check fails.
 *
 * maptest change FILE: maps FILE shared, changes each page of the first half of FILE, and calls
 * msync for this half. Then changes each page of the second half, prints `changed`, and waits until
 * it is killed.
 *
 * maptest press FILE MIB: maps FILE shared and changes each page. Then alternately touches MIB MiB
 * of memory and reads the mapping. The exit status is 1 if the mapping has other data than written.
 */
#include "maptest.h"

char byte_at(size_t i) {
  return (char)(i / PAGE + i % 251);
}

int make_file(const char* name, size_t size) {
  int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0644);
  char page[PAGE];
  for (size_t done = 0; done < size;) {
    size_t part = size - done < PAGE ? size - done : PAGE;
    for (size_t i = 0; i < part; i++) page[i] = byte_at(done + i);
    if (write(fd, page, part) != (ssize_t)part) {
      CHECK(!"written");
      exit(1);
    }
    done += part;
  }
  return fd;
}

char* map(size_t size, int protection, int flags, int fd, off_t offset) {
  char* at = mmap(NULL, size, protection, flags, fd, offset);
  if (at == MAP_FAILED) {
    CHECK(!"mapped");
    exit(1);
  }
  return at;
}

static sigjmp_buf back;
static volatile int caught;
static const volatile char* volatile touched;

static void on_fault(int signal, siginfo_t* info, void* context) {
  (void)context;
  caught = signal * 256 + info->si_code;
  if (info->si_addr != (void*)touched) caught = -1;
  siglongjmp(back, 1);
}

enum { TO_READ, TO_WRITE, TO_CALL };
static int signal_of(const volatile char* at, int how) {
  struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO}, bus, segv;
  sigaction(SIGBUS, &action, &bus);
  sigaction(SIGSEGV, &action, &segv);
  caught = 0;
  touched = at;
  if (sigsetjmp(back, 1) == 0) {
    if (how == TO_READ) (void)*at;
    if (how == TO_WRITE) *(volatile char*)at = 1;
    if (how == TO_CALL) ((void (*)(void))(uintptr_t)at)();
  }
  sigaction(SIGBUS, &bus, NULL);
  sigaction(SIGSEGV, &segv, NULL);
  return caught;
}
int signal_of_read(const volatile char* at) {
  return signal_of(at, TO_READ);
}
int signal_of_write(volatile char* at) {
  return signal_of(at, TO_WRITE);
}
int signal_of_call(const void* function) {
  return signal_of(function, TO_CALL);
}

static char* map_whole(const char* path, size_t* size) {
  int fd = open(path, O_RDWR);
  struct stat status;
  if (fd < 0 || fstat(fd, &status) < 0) {
    perror(path);
    exit(2);
  }
  *size = (size_t)status.st_size;
  char* at = mmap(NULL, *size, READ_WRITE, MAP_SHARED, fd, 0);
  if (at == MAP_FAILED) {
    perror("mmap");
    exit(2);
  }
  close(fd);
  return at;
}

static void change(char* at, size_t from, size_t to, char value) {
  for (size_t i = from; i < to; i += PAGE) memset(at + i, value, 16);
}

static int change_and_wait(const char* path) {
  size_t size;
  char* at = map_whole(path, &size);
  change(at, 0, size / 2, 'S');
  if (msync(at, size / 2, MS_SYNC) < 0) {
    perror("msync");
    return 2;
  }
  change(at, size / 2, size, 'U');
  puts("changed");
  fflush(stdout);
  for (;;) pause();
}

static int press(const char* path, size_t mebibytes) {
  size_t size, pressed = mebibytes << 20;
  char* at = map_whole(path, &size);
  change(at, 0, size, 'P');
  char* memory = map(pressed, READ_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  for (int round = 0; round < 3; round++) {
    for (size_t i = 0; i < pressed; i += PAGE) memory[i] = (char)round;
    for (size_t i = 0; i < size; i += PAGE) {
      if (at[i] != 'P') {
        printf("page %zu is not as it was written\n", i / PAGE);
        return 1;
      }
    }
    change(at, 0, size / 4, 'P');
  }
  puts("pressed");
  return 0;
}

int main(int argc, char** argv) {
  if (argc == 3 && strcmp(argv[1], "change") == 0) return change_and_wait(argv[2]);
  if (argc == 4 && strcmp(argv[1], "press") == 0) return press(argv[2], (size_t)atol(argv[3]));
  if (argc != 2 || chdir(argv[1]) < 0) {
    fprintf(stderr, "usage: maptest FOLDER | maptest change FILE | maptest press FILE MIB\n");
    return 2;
  }
  test_files();
  test_ends();
  test_protection();
  test_sharing();
  test_errors();
  return tap_end();
}
