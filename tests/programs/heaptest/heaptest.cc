// heaptest MODE [N]: allocates and frees in a known order, for the test of probes on allocation
// functions. Prints a line `left ADDRESS SIZE` for each object that it does not free, and `gone
// ADDRESS` for each object that it frees or that disappears with an exec. It prints without stdio,
// which allocates.
#include <fcntl.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <new>

namespace {

// Converts an address to a number, which can be used after the object is freed.
uintptr_t place(const void* address) {
  return reinterpret_cast<uintptr_t>(address);
}

void say(const char* line, int length) {
  write(1, line, static_cast<size_t>(length));
}
void left(const void* address, size_t size) {
  char line[64];
  say(line, sprintf(line, "left %lx %lu\n", place(address), size));
}
void gone(uintptr_t address) {
  char line[64];
  say(line, sprintf(line, "gone %lx\n", address));
}

// A size that no allocation can have. It is volatile to hide its value from the compiler.
volatile size_t huge = SIZE_MAX / 4;

void objects() {
  for (int i = 0; i < 3; i++) left(malloc(100), 100);
  void* freed = malloc(50);
  void* keeps_its_place = malloc(60);
  left(keeps_its_place, 60);
  const uintptr_t freed_place = place(freed);
  free(freed);
  gone(freed_place);
  left(calloc(10, 7), 70);
  if (calloc(huge, 16)) _exit(1);
  if (malloc(huge)) _exit(1);

  void* grown = malloc(24);
  void* behind = malloc(32);  // so that realloc has to move `grown`
  left(behind, 32);
  const uintptr_t grown_place = place(grown);
  void* moved = realloc(grown, 5000);
  if (place(moved) != grown_place) gone(grown_place);
  left(moved, 5000);
  if (realloc(moved, huge)) _exit(1);  // fails, and leaves `moved` allocated
  left(realloc(nullptr, 40), 40);
  void* ended = malloc(48);
  void* stays = malloc(16);
  left(stays, 16);
  const uintptr_t ended_place = place(ended);
  void* empty = realloc(ended, 0);  // may be an object of no bytes
  if (place(empty) != ended_place) gone(ended_place);
  if (empty) left(empty, 0);

  void* aligned = nullptr;
  if (posix_memalign(&aligned, 256, 333) != 0) _exit(1);
  left(aligned, 333);
  void* none = nullptr;
  if (posix_memalign(&none, 3, 10) == 0) _exit(1);
  free(nullptr);
}

void forks() {
  void* ours = malloc(640);
  const pid_t child = fork();
  if (child == 0) {
    free(ours);  // the child's copy
    _exit(0);
  }
  int status;
  waitpid(child, &status, 0);
  left(ours, 640);
}

void memory() {
  constexpr size_t kPage = 4096;
  const auto map = [](size_t pages) {
    return static_cast<char*>(
        mmap(nullptr, pages * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  };
  char* all = map(3);
  munmap(all, 3 * kPage);
  gone(place(all));
  char* middle = map(8);
  char* end = map(4);
  munmap(middle + 2 * kPage, 2 * kPage);
  munmap(end + 3 * kPage, kPage);
  munmap(middle, kPage);
  left(middle + kPage, kPage);
  left(middle + 4 * kPage, 4 * kPage);
  left(end, 3 * kPage);
}

// Maps `count` ranges of one page each, and unmaps the last one.
void ranges(size_t count) {
  constexpr size_t kPage = 4096;
  void* range = nullptr;
  for (size_t i = 0; i < count; i++) {
    range = mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (range == MAP_FAILED) _exit(1);
  }
  munmap(range, kPage);
  gone(place(range));
}

// Makes `depth` nested calls and allocates in the innermost one. throws() calls this function after
// operator new has thrown an exception. The probes have then seen a call of operator new that has
// not returned.
[[gnu::noinline]] void deep(unsigned depth) {
  volatile char room[256];
  room[0] = 0;
  if (depth > 0) {
    deep(depth - 1);
    room[0] = room[0];
    return;
  }
  left(operator new(77), 77);
}
void throws() {
  try {
    left(operator new(huge), 1);
  } catch (const std::bad_alloc&) {
  }
  deep(3);
}

}  // namespace

int main(int argc, char** argv) {
  const char* mode = argc > 1 ? argv[1] : "";
  if (strcmp(mode, "objects") == 0) {
    objects();
  } else if (strcmp(mode, "fork") == 0) {
    forks();
  } else if (strcmp(mode, "memory") == 0) {
    memory();
  } else if (strcmp(mode, "ranges") == 0 && argc == 3) {
    ranges(strtoul(argv[2], nullptr, 10));
  } else if (strcmp(mode, "throw") == 0) {
    throws();
  } else if (strcmp(mode, "exec") == 0) {
    gone(place(malloc(4321)));
    execl("/bin/heaptest", "heaptest", "objects", nullptr);
  } else {
    return 2;
  }
  return 0;
}
