// Requests to trace caches and arenas that do not exist yet. A `start` of all, and the names on the
// kernel command line, also apply to caches and arenas that are made later, until a `stop` of all.
//
//   trace=ITEM[,ITEM...]      ITEM: NAME[:KEY=N...] or all[:KEY=N...], with the options of `start`
//
// An item without a colon has the options of the next item that has a colon. An item with a name
// takes precedence over `all`, in any order. If two valid items have the same name, the first
// counts. If several caches or arenas are made with one name, the later ones are called NAME.2 and
// so on; an item NAME applies to all of them.
//
// This file only stores requests; control.cc starts the traces. The text of the command line is
// stored, and is parsed again for each new cache. This is cheap enough, because new caches are
// rare.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "lib/result.h"
#include "trace/control/command_impl.h"
#include "trace/record/options.h"

struct TraceItem {
  std::string_view name;
  std::string_view options;  // the options' text, with colons between options
};

// Cuts the next item off the front of *text; false when no item is left.
bool trace_next_item(std::string_view* text, TraceItem* item);
// Parses the options of an item. EINVAL, with an error string, for invalid options or an invalid
// name.
Result<TraceOptions> trace_check_item(const TraceItem& item);

// Plain data, so that the effect of several commands can be tried on a copy.
class TraceLater {
 public:
  // Sets the value of `trace=`, at boot; the text must stay valid. Invalid items are ignored.
  void expect(std::string_view items);
  // Applies a command for all sources. On an error nothing is changed, and the error string is set:
  // EBUSY for a start with other options, ENOSPC if no further mark is possible.
  Result<void> advance(const TraceCommand& command);

  // Returns the options for the trace of a new cache or arena with this name; none if it is not to
  // be traced.
  std::optional<TraceOptions> wants(std::string_view name) const;
  // True if the command line has a valid item with this name; false for "all".
  bool names(std::string_view name) const;
  // The mark with which a new trace begins: the number of `mark` commands for all since the first
  // `start` for all, or since boot with `trace=`. A `reset` after a `stop` of all sets the mark to
  // 0.
  uint32_t mark() const { return mark_; }

  // For reports: the options for all, if there is such a request, and the items of the command
  // line.
  std::optional<TraceOptions> all() const { return all_; }
  std::string_view items() const { return items_; }

  // The number of caches and arenas that could not be traced for lack of memory, since the last
  // `start` for all.
  uint32_t untraced() const { return untraced_; }
  void count_untraced() { untraced_++; }

 private:
  TracePhase phase_ = TracePhase::kOff;
  std::optional<TraceOptions> all_;
  std::string_view items_;
  uint32_t mark_ = 0;
  uint32_t untraced_ = 0;
};
