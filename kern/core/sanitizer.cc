// Reports of the sanitizers: a report panics, unless a test of the current task expects it.
#include "core/sanitizer.h"

#if defined(CONFIG_UBSAN) || defined(CONFIG_KASAN)

#include <atomic>
#include <cstdarg>
#include <utility>

#include "core/cpu.h"
#include "core/log.h"
#include "lib/format.h"

namespace {

constinit std::atomic<const TaskHead*> expecting{nullptr};
// The number of expected reports that were made, and the text of the last one. Used only by the
// task that expects reports.
constinit unsigned count = 0;
constinit char text[256] = {};

}  // namespace

bool sanitizer_expected() {
  const TaskHead* const task = expecting.load(std::memory_order_relaxed);
  return task && task == current_task_head() && this_cpu().interrupt_depth == 0;
}

void sanitizer_report(const char* pattern, ...) {
  char line[sizeof(text)];
  va_list arguments;
  va_start(arguments, pattern);
  vformat(line, sizeof(line), pattern, arguments);
  va_end(arguments);
  if (!sanitizer_expected()) panic("%s", line);
  format(text, sizeof(text), "%s", line);
  count++;
}

SanitizerExpected::SanitizerExpected() {
  const TaskHead* nobody = nullptr;
  ASSERT(expecting.compare_exchange_strong(nobody, current_task_head()));
  count = 0;
  text[0] = '\0';
}

SanitizerExpected::~SanitizerExpected() {
  expecting.store(nullptr, std::memory_order_relaxed);
}

unsigned SanitizerExpected::take_count() {
  return std::exchange(count, 0);
}

const char* SanitizerExpected::last() const {
  return text;
}

#endif
