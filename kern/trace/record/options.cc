#include "trace/record/options.h"

#include "lib/format.h"

int TraceOptions::format_filters(char* buffer, size_t size) const {
  size_t length = 0;
  const auto print = [&](const char* key, uint64_t value) {
    const size_t used = length < size ? length : size;
    length += static_cast<size_t>(format(buffer + used, size - used, " %s %lu", key, value));
  };
  if (size > 0) buffer[0] = 0;
  if (min_size != 0) print("min", min_size);
  if (max_size != kAnySize) print("max", max_size);
  if (pid != 0) print("pid", pid);
  if (sample != 0) print("sample", sample);
  if (frees) print("frees", 1);
  return static_cast<int>(length);
}

int TraceOptions::format_as_typed(char* buffer, size_t size) const {
  char filters[kMaxFilters];
  size_t spaces = 0;
  format_filters(filters, sizeof(filters));
  for (char* c = filters; *c; c++) {
    if (*c == ' ' && spaces++ % 2 == 1) *c = '=';
  }
  return format(buffer, size, " depth=%u%s", depth, filters);
}

const char* trace_phase_name(TracePhase phase) {
  switch (phase) {
    case TracePhase::kRunning:
      return "running";
    case TracePhase::kStopped:
      return "stopped";
    case TracePhase::kOff:
      break;
  }
  return "off";
}
