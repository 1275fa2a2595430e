// What the sanitizers' handlers (src/core/ubsan.cc, src/kasan.cc) report to. CONFIG_UBSAN,
// CONFIG_KASAN.
#pragma once

#include <atomic>
#include <cstddef>

struct TaskHead;

// Says what was found and panics; returns, without a word, only for a task that expects it
// (SanitizerExpected). Any context.
void sanitizer_report(const char* pattern, ...) __attribute__((format(printf, 1, 2), cold));
// Whether the current task expects reports.
bool sanitizer_expected();

// For tests: while one lives its task's reports are kept instead of ending the machine, and the
// task goes on. One at a time in the whole system.
class SanitizerExpected {
 public:
  SanitizerExpected();
  ~SanitizerExpected();
  SanitizerExpected(const SanitizerExpected&) = delete;
  SanitizerExpected& operator=(const SanitizerExpected&) = delete;

  // Reports since the last call.
  unsigned take_count();
  // The last one; empty if there was none.
  const char* last() const;
};
