// The options and the state of a trace. Plain data; command_impl.h defines the changes of the
// state.
#pragma once

#include <cstddef>
#include <cstdint>

struct TraceOptions {
  static constexpr uint32_t kDefaultDepth = 32;
  static constexpr uint32_t kAnySize = UINT32_MAX;
  uint32_t depth = kDefaultDepth;  // the number of frames of a stack that are recorded
  // Filters: an allocation that does not meet all of them is only counted.
  uint32_t min_size = 0;         // least requested bytes
  uint32_t max_size = kAnySize;  // most requested bytes; kAnySize: no limit
  uint32_t pid = 0;              // the allocating process; 0: any
  // Mean number of bytes between two sampling points (sampler.h); 0: all allocations are recorded.
  uint64_t sample = 0;
  bool frees = false;  // frees are counted by the stacks that allocated and freed

  bool wants_size(uint64_t size) const {
    return size >= min_size && (size <= max_size || max_size == kAnySize);
  }

  // Writes the filters that are set, as " min N max N pid N sample N frees 1". Returns the length
  // of the whole text.
  static constexpr size_t kMaxFilters = 72;  // longest text in bytes, with its NUL
  int format_filters(char* buffer, size_t size) const;
  // Writes all options in the form in which a user types them: " depth=N min=N …". Returns the
  // length of the whole text.
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
