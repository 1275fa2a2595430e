// The words that are written to #mem/kmemtrace/NAME and …/ctl, and what they do to the state of a trace.
//
//   off --start--> running --stop--> stopped --reset--> off        stopped --start--> running, with the records kept
//   start while running: nothing with the same options, EBUSY with others. reset while running: empties and goes on.
//   stop and reset when there is nothing to stop or reset succeed. mark needs a trace.
//
// Nothing here touches a cache: lines are parsed, and their effect on the state computed, before the first is done.
#pragma once

#include <cstdint>
#include <string_view>

#include "lib/result.h"

enum class TraceWord : uint8_t { kStart, kStop, kReset, kMark, kSettle };

struct TraceOptions {
  static constexpr uint32_t kDefaultDepth = 32;
  uint32_t depth = kDefaultDepth;  // frames of a stack that are recorded
  bool operator==(const TraceOptions&) const = default;
};

struct TraceCommand {
  TraceWord word;
  TraceOptions options;  // of kStart
};

// Which words there are.
enum class CommandScope : uint8_t { kOneCache, kAllCaches };

// Cuts the next line with a command off the front of *text and parses it. False: there was none left. EINVAL, with an
// error string.
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
// What `command` makes of the state of the cache `name`. EBUSY, EINVAL, ENOSPC, with an error string and the state as
// it was.
Result<void> trace_advance(TraceState& state, const TraceCommand& command, const char* name);
