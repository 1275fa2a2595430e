// The commands that are written to the files of #mem/kmemtrace, and their effect on the state of a
// trace. A command in the file NAME is for one source: a cache, an arena or a class of references.
// A command in `ctl` is for all sources.
//
//   off --start--> running --stop--> stopped --reset--> off
//   stopped --start--> running, with the records kept
//
// In `ctl`, `start` starts the traces of caches and arenas, and `refs` starts the traces of
// references. While a trace is running, start has no effect if the options are the same, and fails
// with EBUSY if they differ. While a trace is running, reset empties its table, and the trace goes
// on. After a stop, start fails with EBUSY if the sampling rate differs, because the kept records
// would get wrong weights. stop and reset succeed when there is nothing to stop or reset. mark
// fails with EINVAL if the source has no trace. settle, sweep, limit and reap are for all sources
// and change no state. check, nocheck and scan are for run-time checking (slab.h), which is
// independent of traces.
//
// The functions of this file change no cache. control.cc uses them to parse all lines of a write
// and to compute the effect of these lines on the state, before it executes the first line.
#pragma once

#include <cstdint>
#include <string_view>

#include "intern/page_buffer.h"
#include "lib/result.h"
#include "trace/record/options.h"

enum class TraceWord : uint8_t {
  kStart,
  kStop,
  kReset,
  kMark,
  kRefs,  // starts the traces of references
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
  TraceOptions options;  // options of kStart and kRefs
  uint64_t limit;        // argument of kLimit, bytes
};

// The scope of a command, which determines the valid words.
enum class CommandScope : uint8_t { kOneCache, kAllCaches };

// Parses the options of `start`, with `separator` between them. If `separator` is a blank, any
// white space separates options. EINVAL, with an error string.
Result<TraceOptions> trace_parse_options(std::string_view text, char separator);

// Parses all lines of a write. EINVAL, with an error string, if a line is invalid or there is no
// command. ENOMEM. May sleep.
Result<PageVector<TraceCommand>> trace_parse_commands(std::string_view text, CommandScope scope);

// Applies `command` to the state of the cache `name`. EBUSY, EINVAL, ENOSPC, with an error string
// and the state unchanged.
Result<void> trace_advance(TraceState& state, const TraceCommand& command, const char* name);
