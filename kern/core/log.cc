// The kernel log: lines on the console, each with the time since boot.
#include "core/log.h"

#include <cstdarg>

#include "arch/x86_64/time.h"
#include "core/console.h"
#include "core/log_buffer.h"
#include "lib/format.h"

size_t log_line(char* line, size_t size, size_t length) {
  constexpr size_t kEnd = 3;  // carriage return, newline, and vformat's NUL
  if (length > size - kEnd) length = size - kEnd;
  for (char* at = line; at < line + length; at++)
    if ((*at < ' ' && *at != '\t') || *at > '~') *at = '?';
  line[length++] = '\r';
  line[length++] = '\n';
  return length;
}

void klog(const char* pattern, ...) {
  constexpr size_t kLongestLine = 352;
  char line[kLongestLine];
  const uint64_t microseconds = monotonic_now().value / 1000;
  const int stamp = format(line, sizeof(line), "[%5lu.%06lu] ", microseconds / 1'000'000,
                           microseconds % 1'000'000);
  va_list arguments;
  va_start(arguments, pattern);
  const int length = stamp + vformat(line + stamp, sizeof(line) - stamp - 2, pattern, arguments);
  va_end(arguments);
  // One call, so that lines of several CPUs do not mix. Only lines longer than kLongestHold bytes
  // (uart.cc) can mix.
  const size_t size = log_line(line, sizeof(line), static_cast<size_t>(length));
  constexpr size_t kLineEnd = 2;
  log_keep({line, size - kLineEnd});
  console_write(line, size);
}
