// Tests that run inside the kernel, with TAP on the console. Kernel command line: `ktest`, or
// `ktest=WORD,...` for the tests whose name contains one of the words.
#pragma once

#include <string_view>

#include "core/log.h"
#include "lib/result.h"

struct KernelTest {
  const char* name;
  void (*run)();
};

// KTEST(name) { … EXPECT(condition); … }: runs in a kernel task, may sleep.
#define KTEST(test_name)                                                                     \
  static void ktest_##test_name();                                                           \
  [[gnu::section(".ktests"), gnu::used,                                                      \
    gnu::aligned(8)]] static const KernelTest ktest_entry_##test_name = {#test_name,         \
                                                                         ktest_##test_name}; \
  static void ktest_##test_name()

// Marks the running test as failed and goes on. Any context.
void ktest_fail(const char* file, int line, const char* what);
#define EXPECT(condition)                                         \
  do {                                                            \
    if (!(condition)) ktest_fail(__FILE__, __LINE__, #condition); \
  } while (0)
// The number of failures of the running test.
unsigned ktest_failures();
// Prints lines that explain a failure. May sleep.
void ktest_note(std::string_view text);
// A pseudo-random 64-bit number from a seed that is printed (and can be set by `seed=N` on the
// command line).
unsigned long ktest_random();
// The number N if the kernel command line has `name=N`, otherwise `usual`.
uint64_t ktest_option(const char* name, uint64_t usual);

template <typename T>
bool fails_with(Errno error, const Result<T>& result) {
  return !result && result.error() == error;
}

// Runs all selected tests and powers off.
[[noreturn]] void ktest_run_all();
