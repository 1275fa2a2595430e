// probethreads WHAT: a test program whose threads call functions that a test has probed. WHAT is
// one of the names in kinds[] below. The tests know which thread makes how many calls. Status 0 if
// the program behaves as without probes.
//
// The program creates threads with system calls, not with the C library. These threads have no
// thread-local storage, so they call no function of the library.
#include <stele.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <abi/syscall.h>

namespace {

constexpr unsigned kThreads = 8;
constexpr unsigned kRounds = 300;       // rounds of each thread
constexpr unsigned long kLeaked = 100;  // bytes of a leaked object; a thread leaks kRounds objects
constexpr uintptr_t kObjects = 0x7000'0000;  // address of the first object; not mapped
std::atomic<uint64_t> objects{0};

class Event {
 public:
  void wait() {
    while (word_.load() == 0) STELE_CALL(futex, ABI_FUTEX_WAIT, &word_, 0);
  }
  void set() {
    word_.store(1);
    STELE_CALL(futex, ABI_FUTEX_WAKE, &word_, UINT32_MAX);
  }

 private:
  std::atomic<uint32_t> word_{0};
};

struct Thread {
  void (*run)(unsigned long);
  unsigned long argument;
  std::atomic<uint32_t> id{0};
  uint64_t thread_pointer = 0;
  alignas(16) char stack[16384];

  void make(void (*body)(unsigned long), unsigned long value = 0) {
    run = body;
    argument = value;
    thread_pointer = reinterpret_cast<uint64_t>(&thread_pointer);
    const abi_thread how = {.entry = reinterpret_cast<uint64_t>(begin),
                            .argument = reinterpret_cast<uint64_t>(this),
                            .stack = reinterpret_cast<uint64_t>(stack + sizeof(stack) - 8),
                            .tls = thread_pointer,
                            .id = reinterpret_cast<uint64_t>(&id),
                            .unblocked = 0};
    if (STELE_CALL(thread_create, &how) < 0) STELE_CALL(exit, 90);
  }
  void join() {
    for (uint32_t now; (now = id.load()) != 0;) STELE_CALL(futex, ABI_FUTEX_WAIT, &id, now);
  }

 private:
  static void begin(Thread* thread) {
    thread->run(thread->argument);
    STELE_CALL(thread_exit);
  }
};
Thread threads[kThreads];

}  // namespace

// --- Probed functions. noipa: the compiler inlines none of their calls, and assumes nothing about
// what they do.

extern "C" {

volatile unsigned long threads_sink;

[[gnu::noipa]] unsigned long threads_leaf(unsigned long a) {
  return a * 3;
}
[[gnu::noipa]] unsigned long threads_outer(unsigned long a) {
  return threads_leaf(a) + threads_leaf(a + 1);
}

// Makes an object at the address `at`, or at a unique address if `at` is 0.
[[gnu::noipa]] uintptr_t threads_make(unsigned long size, uintptr_t at) {
  threads_sink = size;
  return at != 0 ? at : kObjects + objects.fetch_add(1) * 0x1000;
}
[[gnu::noipa]] void threads_drop(uintptr_t object) {
  threads_sink = object;
}
// Makes two objects, drops the first and returns the second.
[[gnu::noipa]] uintptr_t threads_make_both(unsigned long size) {
  threads_drop(threads_make(size, 0));
  return threads_make(size, 0);
}
// Resizes an object as realloc() does: returns the new address, or 0 if `succeeds` is false. The
// function sets resize_freed and waits for resize_goes_on before it returns. Meanwhile another
// object may get the old address.
static Event resize_freed, resize_goes_on;
[[gnu::noipa]] uintptr_t threads_resize(uintptr_t object, unsigned long size, bool succeeds) {
  threads_sink = object;
  resize_freed.set();
  resize_goes_on.wait();
  return succeeds ? kObjects + size * 0x1000 : 0;
}
static Event inside_gate;
static std::atomic<uint32_t> inside{0};
// Ends the calling thread, so it does not return.
[[gnu::noipa]] uintptr_t threads_make_and_end(unsigned long size) {
  threads_sink = threads_make(size, 0);
  STELE_CALL(thread_exit);
  return 0;
}
[[gnu::noipa]] uintptr_t threads_make_and_wait(unsigned long size) {
  inside.fetch_add(1);
  inside_gate.wait();
  return kObjects + size;
}
[[gnu::noipa]] uintptr_t threads_make_and_fork(unsigned long size) {
  const long child = STELE_CALL(fork);
  if (child == 0) {
    threads_drop(threads_make(size, 0));
    STELE_CALL(exit, threads_make(1, 0) != 0 ? 20 : 21);
  }
  int status = 0;
  while (STELE_CALL(wait4, child, &status) != child) continue;
  return status == 20 << 8 ? kObjects + size * 0x1000 : 0;
}

// --- Leaking functions: leak_even() for threads with even numbers, leak_odd() for the others.

[[gnu::noipa]] void leak_even(unsigned long thread) {
  threads_sink = threads_make(kLeaked, 0) + thread;
}
[[gnu::noipa]] void leak_odd(unsigned long thread) {
  threads_sink = threads_make_both(kLeaked) + thread;
}
}

namespace {

void on_all(void (*body)(unsigned long)) {
  for (unsigned i = 0; i < kThreads; i++) threads[i].make(body, i);
  for (Thread& thread : threads) thread.join();
}

std::atomic<uint64_t> sum{0};
void call_often(unsigned long thread) {
  uint64_t mine = 0;
  for (unsigned long i = 0; i < kRounds; i++) mine += threads_outer(thread * kRounds + i);
  sum.fetch_add(mine);
}
int calls() {
  on_all(call_often);
  constexpr uint64_t n = kThreads * kRounds;
  return sum.load() == n * (n - 1) / 2 * 6 + n * 3 ? 0 : 1;
}

// Slots through which threads pass objects. In each round a thread puts a new object into a slot
// and drops the object that the slot held before, which another thread has usually made. At the end
// the main thread drops the objects that are left in the slots.
std::atomic<uintptr_t> passed[kThreads];
void make_often(unsigned long thread) {
  for (unsigned i = 0; i < kRounds; i++) {
    (thread % 2 == 0 ? leak_even : leak_odd)(thread);
    threads_drop(threads_make(50, 0));
    const uintptr_t other = passed[(thread + i) % kThreads].exchange(threads_make(70, 0));
    if (other != 0) threads_drop(other);
  }
}
int leaks() {
  on_all(make_often);
  for (const std::atomic<uintptr_t>& left : passed) threads_drop(left);
  return 0;
}

void end_inside(unsigned long size) {
  threads_make_and_end(size);
}
void make_one(unsigned long size) {
  threads_sink = threads_make_both(size);
}
// A thread ends within a call; the next thread reuses its stack.
int ends() {
  for (unsigned i = 0; i < 50; i++) {
    threads[0].make(end_inside, 1000);
    threads[0].join();
    threads[0].make(make_one, 10);
    threads[0].join();
  }
  return 0;
}

void resize_often(unsigned long succeeds) {
  const uintptr_t old = threads_make(100, kObjects);
  threads_sink = threads_resize(old, 200, succeeds != 0);
}
// While a thread resizes an object, the main thread makes another object at the same address.
int resizes() {
  threads[0].make(resize_often, 1);
  resize_freed.wait();
  threads_sink = threads_make(300, kObjects);
  resize_goes_on.set();
  threads[0].join();
  return 0;
}
// The resize fails, so the old object stays.
int fails_to_resize() {
  resize_goes_on.set();
  resize_often(0);
  return 0;
}
// The main thread ends the process during a resize.
int ends_in_resize() {
  threads[0].make(resize_often, 1);
  resize_freed.wait();
  return 0;
}

void fork_inside(unsigned long size) {
  threads_sink = threads_make_and_fork(size);
}
int forks() {
  for (unsigned i = 0; i < 4; i++) {
    for (unsigned t = 0; t < kThreads; t++) threads[t].make(fork_inside, i * kThreads + t);
    for (Thread& thread : threads) thread.join();
  }
  return 0;
}

void wait_inside(unsigned long size) {
  threads_sink = threads_make_and_wait(size);
}
void execute(unsigned long) {
  const char* const arguments[] = {"probethreads", "calls", nullptr};
  STELE_CALL(execve, "/bin/probethreads", arguments, &arguments[2]);
}
// One thread executes this program again while the other threads are inside a probed function.
int executes() {
  threads_sink = threads_make(500, 0);
  for (unsigned t = 1; t < kThreads; t++) threads[t].make(wait_inside, t);
  while (inside.load() < kThreads - 1) STELE_CALL(yield);
  threads[0].make(execute);
  for (;;) pause();
}
int waits_inside() {
  for (unsigned t = 0; t < kThreads; t++) threads[t].make(wait_inside, t);
  while (inside.load() < kThreads) STELE_CALL(yield);
  // Wait until the test sends a line.
  char line;
  if (write(STDOUT_FILENO, "inside\n", 7) != 7 || read(STDIN_FILENO, &line, 1) < 0) return 1;
  inside_gate.set();
  for (Thread& thread : threads) thread.join();
  return 0;
}

// Each thread opens a device five times and closes no descriptor. Each open makes the kernel
// allocate memory.
void open_often(unsigned long) {
  for (unsigned i = 0; i < 5; i++) STELE_CALL(open, ABI_AT_FDCWD, "#debug/leaky/leak", 0);
}
int opens() {
  open_often(0);
  on_all(open_often);
  return 0;
}

// Maps ranges and unmaps all but three of them. Other threads may then get the unmapped addresses.
void map_often(unsigned long thread) {
  constexpr long kSize = 5000;
  for (unsigned i = 0; i < kRounds; i++) {
    const long at = STELE_CALL(mmap, 0, kSize, 3, ABI_MAP_PRIVATE | ABI_MAP_ANONYMOUS);
    if (at < 0) STELE_CALL(exit, 91);
    if (i % 100 == thread) continue;
    if (STELE_CALL(munmap, at, kSize) != 0) STELE_CALL(exit, 92);
  }
}
int maps() {
  on_all(map_often);
  return 0;
}

struct {
  const char* name;
  int (*run)();
} const kinds[] = {
    {"calls", calls},
    {"leaks", leaks},
    {"ends", ends},
    {"resizes", resizes},
    {"no-resize", fails_to_resize},
    {"end-in-resize", ends_in_resize},
    {"forks", forks},
    {"exec", executes},
    {"inside", waits_inside},
    {"opens", opens},
    {"maps", maps},
};

}  // namespace

int main(int argc, char** argv) {
  for (const auto& kind : kinds) {
    if (argc == 2 && strcmp(argv[1], kind.name) == 0) return kind.run();
  }
  fprintf(stderr,
          "usage: probethreads calls|leaks|ends|resizes|no-resize|end-in-resize|forks|exec|inside|"
          "opens|maps\n");
  return 2;
}
