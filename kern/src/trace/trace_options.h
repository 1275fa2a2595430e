// The options and the state of a trace. Plain data; command.h defines the changes of the state.
#pragma once

#include <cstddef>
#include <cstdint>

struct TraceOptions {
  static constexpr uint32_t kDefaultDepth = 32;
  static constexpr uint32_t kAnySize = UINT32_MAX;
  uint32_t depth = kDefaultDepth;  // frames of a stack that are recorded
  // Filters: an allocation that does not meet all of them is only counted.
  uint32_t min_size = 0;         // requested bytes
  uint32_t max_size = kAnySize;  // the same; kAnySize: no limit
  uint32_t pid = 0;              // the allocating process; 0: any
  uint64_t sample = 0;  // bytes between two sampling points (sampler.h); 0: all are recorded

  bool wants_size(uint64_t size) const {
    return size >= min_size && (size <= max_size || max_size == kAnySize);
  }

  // The first writes the set filters as " min N max N pid N sample N", the second all options as
  // they are typed, " depth=N min=N …". They return the length of the whole text.
  static constexpr size_t kMaxFilters = 72;  // bytes with the NUL
  int format_filters(char* buffer, size_t size) const;
  int format_as_typed(char* buffer, size_t size) const;
  bool operator==(const TraceOptions&) const = default;
};

enum class TracePhase : uint8_t { kOff, kRunning, kStopped };
const char* trace_phase_name(TracePhase phase);

struct TraceState {
  TracePhase phase = TracePhase::kOff;
  TraceOptions options;
  uint32_t mark = 0;
};
