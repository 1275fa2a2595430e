// alloctest: leaks a given number of bytes through each given allocator, in a function named after
// the allocator, for the test of memleak.
//
//   alloctest [--leak BYTES] [--threads N] [--go] [--stay] KIND…
//   alloctest --time                                 prints the cost of malloc and free, waits for
//                                                    a line on standard input, and does both again
//   alloctest --as UID PROGRAM ARGUMENT…             runs a program as another user
//
//   --leak BYTES  the bytes that each KIND leaks: a multiple of 1000 (default: 30000)
//   --threads N   starts N threads. Each thread leaks BYTES of each KIND, and the main thread leaks
//                 nothing
//   --go          says `ready` and waits for a line on standard input before it allocates
//   --stay        says `done` and waits for a line, or the end of standard input, before it ends
//
// The program reads and writes without stdio, because stdio would allocate buffers.
#include "alloctest.h"

#include <pthread.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

void* volatile forgotten;
void* old_memory;

void* must(void* memory) {
  if (memory == nullptr) _exit(3);
  return memory;
}

const Kind* find_kind(std::string_view name) {
  for (std::size_t i = 0; i < kind_count; i++) {
    if (name == kinds[i].name) return &kinds[i];
  }
  return nullptr;
}

namespace {

void say(std::string_view text) {
  (void)!write(STDOUT_FILENO, text.data(), text.size());
}

void await_line() {
  char c = 0;
  while (read(STDIN_FILENO, &c, 1) == 1 && c != '\n') {
  }
}

[[noreturn]] void time_pairs() {
  std::free(must(std::malloc(100'000)));  // creates the heap before the measurement
  for (const char* const state : {"before", "after"}) {
    char line[64];
    std::snprintf(line, sizeof(line), "%s %lu\n", state, time_of_pair());
    say(line);
    await_line();
  }
  _exit(0);
}

struct Work {
  std::size_t bytes;
  char** first;
  char** behind;
};

// Always inlined, so that leak_all() has no frame in the stacks of leaks. In these stacks main() or
// leak_in_thread() calls the kind's function directly.
[[gnu::always_inline]] inline void leak_all(const Work& work) {
  for (char** kind = work.first; kind != work.behind; kind++) find_kind(*kind)->leak(work.bytes);
}

void* leak_in_thread(void* argument) {
  leak_all(*static_cast<const Work*>(argument));
  return nullptr;
}

void leak_in_threads(unsigned count, Work& work) {
  constexpr unsigned kMost = 64;
  static pthread_t threads[kMost];
  if (count > kMost) _exit(2);
  for (unsigned i = 0; i < count; i++) {
    if (pthread_create(&threads[i], nullptr, leak_in_thread, &work) != 0) _exit(3);
  }
  for (unsigned i = 0; i < count; i++) pthread_join(threads[i], nullptr);
}

[[noreturn]] void usage() {
  say("usage: alloctest [--leak BYTES] [--threads N] [--go] [--stay] KIND…\n       alloctest "
      "--time\n       "
      "alloctest --as UID "
      "PROGRAM ARGUMENT…\nKINDs:");
  for (std::size_t i = 0; i < kind_count; i++) {
    say(" ");
    say(kinds[i].name);
  }
  say("\n");
  _exit(2);
}

}  // namespace

int main(int argc, char** argv) {
  std::size_t bytes = 30000;
  unsigned threads = 0;
  bool go = false, stay = false;
  int at = 1;
  if (argc > 3 && std::string_view(argv[1]) == "--as") {
    if (setuid(static_cast<uid_t>(std::strtoul(argv[2], nullptr, 10))) == 0)
      execvp(argv[3], argv + 3);
    _exit(3);
  }
  if (argc == 2 && std::string_view(argv[1]) == "--time") time_pairs();
  for (; at < argc && std::strncmp(argv[at], "--", 2) == 0; at++) {
    const std::string_view option = argv[at];
    if (option == "--go") {
      go = true;
    } else if (option == "--stay") {
      stay = true;
    } else if (option == "--threads" && at + 1 < argc) {
      threads = static_cast<unsigned>(std::strtoul(argv[++at], nullptr, 10));
    } else if (option == "--leak" && at + 1 < argc) {
      bytes = std::strtoul(argv[++at], nullptr, 10);
    } else {
      usage();
    }
  }
  if (at == argc || bytes == 0 || bytes % 1000 != 0) usage();
  for (int i = at; i < argc; i++) {
    if (find_kind(argv[i]) == nullptr) usage();
  }
  old_memory = must(std::malloc(500));
  if (go) {
    say("ready\n");
    await_line();
  }
  Work work{bytes, argv + at, argv + argc};
  if (threads == 0) {
    leak_all(work);
  } else {
    leak_in_threads(threads, work);
  }
  if (stay) {
    say("done\n");
    await_line();
  }
  _exit(0);
}
