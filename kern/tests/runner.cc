// Runs the tests that are linked into the kernel, one after the other in one kernel task. Reports
// the results on the console in the Test Anything Protocol, version 13. Lines of the protocol have
// no time stamp; lines of the kernel log may stand between them.
#include <algorithm>
#include <atomic>
#include <string_view>

#include "arch/x86_64/time.h"
#include "core/boot.h"
#include "core/ktest.h"
#include "core/power.h"
#include "core/uart.h"
#include "lib/format.h"
#include "lib/words.h"
#include "trace/trace.h"

extern "C" const KernelTest ktests_start[], ktests_end[];

namespace {

constexpr uint64_t kDefaultSeed = 20240229;

constinit std::atomic<unsigned> failures{0};
constinit std::atomic<uint64_t> random_state{kDefaultSeed};

__attribute__((format(printf, 1, 2))) void tap(const char* pattern, ...) {
  char line[256];
  va_list arguments;
  va_start(arguments, pattern);
  int length = vformat(line, sizeof(line) - 1, pattern, arguments);
  va_end(arguments);
  if (length > static_cast<int>(sizeof(line)) - 2) length = sizeof(line) - 2;
  line[length++] = '\n';
  uart_write(0, line, static_cast<size_t>(length));
}

std::string_view option(const char* name) {
  size_t length = 0;
  const char* value = boot_option(name, &length);
  return value ? std::string_view(value, length) : std::string_view();
}

// True if the name contains one of `words`, a list separated by commas. Every name contains the
// empty word.
bool selected(std::string_view name, std::string_view words) {
  for (;;) {
    const size_t comma = std::min(words.find(','), words.size());
    if (name.find(words.substr(0, comma)) != std::string_view::npos) return true;
    if (comma == words.size()) return false;
    words.remove_prefix(comma + 1);
  }
}

}  // namespace

uint64_t ktest_option(const char* name, uint64_t usual) {
  std::string_view digits = option(name);
  take_number(digits, 10, &usual);
  return usual;
}

void ktest_fail(const char* file, int line, const char* what) {
  failures++;
  tap("# %s:%d: %s", file, line, what);
}

unsigned ktest_failures() {
  return failures;
}

void ktest_note(std::string_view text) {
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    tap("#   %.*s", static_cast<int>(end), text.data());
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

// SplitMix64 (Steele, Lea & Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014).
unsigned long ktest_random() {
  uint64_t z = random_state.fetch_add(0x9e3779b97f4a7c15) + 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

void ktest_run_all() {
  const std::string_view wanted = option("ktest");
  const uint64_t seed = ktest_option("seed", kDefaultSeed);
  unsigned run = 0, failed = 0;
  tap("TAP version 13");
  tap("# seed=%lu", seed);
  for (const KernelTest* test = ktests_start; test < ktests_end; test++) {
    if (!selected(test->name, wanted)) continue;
    random_state = seed;
    failures = 0;
    const Nanoseconds start = monotonic_now();
    test->run();
    const uint64_t milliseconds = (monotonic_now() - start).value / 1'000'000;
    const bool good = failures == 0;
    if (!good) failed++;
    tap("%s %u - %s # %lu ms", good ? "ok" : "not ok", ++run, test->name, milliseconds);
  }
  tap("1..%u", run);
  if (run == 0) tap("# no test matches");
  power_off(failed == 0 && run > 0 ? ExitCode::kTestsPassed : ExitCode::kTestsFailed);
}
