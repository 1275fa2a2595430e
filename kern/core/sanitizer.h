// Reports of the sanitizers' handlers (core/ubsan.cc, src/kasan.cc), for kernels with
// CONFIG_UBSAN or CONFIG_KASAN.
#pragma once

#include <atomic>
#include <cstddef>

struct TaskHead;

// Prints the report and panics. If the current task expects reports (SanitizerExpected), only
// stores the report and returns. Any context.
void sanitizer_report(const char* pattern, ...) __attribute__((format(printf, 1, 2), cold));
// True if the current task expects reports; false in an interrupt.
bool sanitizer_expected();

// For tests. While this object exists, a report from the task that made it is stored and causes no
// panic, and the task continues. Only one such object exists at a time.
class SanitizerExpected {
 public:
  SanitizerExpected();
  ~SanitizerExpected();
  SanitizerExpected(const SanitizerExpected&) = delete;
  SanitizerExpected& operator=(const SanitizerExpected&) = delete;

  // The number of reports since the last call.
  unsigned take_count();
  // The text of the last report; empty if there was none.
  const char* last() const;
};
