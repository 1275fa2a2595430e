// The words that are written to #mem/kmemtrace/NAME and …/ctl, and what they do to the state of a
// trace.
//
//   off --start--> running --stop--> stopped --reset--> off
//   stopped --start--> running, with the records kept
//
// start while running: nothing with the same options, EBUSY with others. reset while running:
// empties and goes on. start after stop with another sampling rate: EBUSY, since the records kept
// would be taken for what they are not. stop and reset when there is nothing to stop or reset
// succeed. mark needs a trace. settle, limit and reap are for all caches and change no state.
// check, nocheck and scan are about run-time checking (slab.h), which has nothing to do with the
// state of a trace.
//
// Nothing here touches a cache: lines are parsed, and their effect on the state computed, before
// the first is done.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "lib/result.h"

enum class TraceWord : uint8_t {
  kStart,
  kStop,
  kReset,
  kMark,
  kCheck,
  kNoCheck,
  kScan,
  kSettle,
  kLimit,
  kReap
};

struct TraceOptions {
  static constexpr uint32_t kDefaultDepth = 32;
  static constexpr uint32_t kAnySize = UINT32_MAX;  // sizes beyond it are recorded as this
  uint32_t depth = kDefaultDepth;                   // frames of a stack that are recorded
  // Filters: what does not meet all of them is counted, not recorded.
  uint32_t min_size = 0;         // bytes asked for
  uint32_t max_size = kAnySize;  // the same
  uint32_t pid = 0;              // the process that allocates; 0 for whoever does
  uint64_t sample = 0;  // bytes between two sampling points (sampler.h); 0: all are recorded

  // The filters that are set, as " min N max N pid N sample N"; " depth=N min=N …" as one would
  // type them. They return the lengths of the whole texts.
  static constexpr size_t kMaxFilters = 72;  // bytes with the NUL
  int format_filters(char* buffer, size_t size) const;
  int format_as_typed(char* buffer, size_t size) const;
  bool operator==(const TraceOptions&) const = default;
};

struct TraceCommand {
  TraceWord word;
  TraceOptions options;  // of kStart
  uint64_t limit;        // of kLimit, bytes
};

// Which words there are.
enum class CommandScope : uint8_t { kOneCache, kAllCaches };

// Cuts the next line with a command off the front of *text and parses it. False: there was none
// left. EINVAL, with an error string.
Result<bool> trace_next_command(std::string_view* text, CommandScope scope, TraceCommand* command);
// All lines of a write. EINVAL if one is wrong or there is none.
Result<void> trace_check_syntax(std::string_view text, CommandScope scope);

enum class TracePhase : uint8_t { kOff, kRunning, kStopped };
const char* trace_phase_name(TracePhase phase);

struct TraceState {
  TracePhase phase = TracePhase::kOff;
  TraceOptions options;
  uint32_t mark = 0;
};
// What `command` makes of the state of the cache `name`. EBUSY, EINVAL, ENOSPC, with an error
// string and the state as it was.
Result<void> trace_advance(TraceState& state, const TraceCommand& command, const char* name);
