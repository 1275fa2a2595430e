// The words that are written to #mem/kmemtrace/NAME and …/ctl, and what they do to the state of a
// trace.
//
//   off --start--> running --stop--> stopped --reset--> off
//   stopped --start--> running, with the records kept
//
// `refs`, for all, is a start of what start is not for: references. start while running: nothing
// with the same options, EBUSY with others. reset while running: empties and goes on. start after
// stop with another sampling rate: EBUSY, since the records kept would be taken for what they are
// not. stop and reset when there is nothing to stop or reset succeed. mark needs a trace. settle,
// sweep, limit and reap are for all caches and change no state. check, nocheck and scan are about
// run-time checking (slab.h), which has nothing to do with the state of a trace.
//
// Nothing here touches a cache: lines are parsed, and their effect on the state computed, before
// the first is done.
#pragma once

#include <cstdint>
#include <string_view>

#include "lib/result.h"
#include "trace/trace_options.h"

enum class TraceWord : uint8_t {
  kStart,
  kStop,
  kReset,
  kMark,
  kRefs,  // the start of references
  kCheck,
  kNoCheck,
  kScan,
  kSettle,
  kSweep,
  kLimit,
  kReap
};

struct TraceCommand {
  TraceWord word;
  TraceOptions options;  // of kStart and kRefs
  uint64_t limit;        // of kLimit, bytes
};

// Which words there are.
enum class CommandScope : uint8_t { kOneCache, kAllCaches };

// The options of `start`, with `separator` between them; a blank means any white space. EINVAL,
// with an error string.
Result<TraceOptions> trace_parse_options(std::string_view text, char separator);

// Cuts the next line with a command off the front of *text and parses it. False: there was none
// left. EINVAL, with an error string.
Result<bool> trace_next_command(std::string_view* text, CommandScope scope, TraceCommand* command);
// All lines of a write. EINVAL if one is wrong or there is none.
Result<void> trace_check_syntax(std::string_view text, CommandScope scope);

// What `command` makes of the state of the cache `name`. EBUSY, EINVAL, ENOSPC, with an error
// string and the state as it was.
Result<void> trace_advance(TraceState& state, const TraceCommand& command, const char* name);
