// Requests to trace caches and arenas that do not exist yet: a `start` of all, and the names on the
// kernel command line, also apply to those made later, until all are stopped.
//
//   trace=ITEM[,ITEM...]      ITEM: NAME[:KEY=N...] or all[:KEY=N...], with the options of `start`
//
// Options apply to their item and to the items before it that have no colon. An item with a name
// takes precedence over `all`, regardless of the order; of two with one name the first one counts.
// A name also matches later caches and arenas of this name, which are called NAME.2 and so on.
//
// Nothing here touches a cache: control.cc starts the traces. The text of the command line is kept
// and parsed again for each new cache, since these are rare.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "lib/result.h"
#include "trace/command.h"
#include "trace/trace_options.h"

struct TraceItem {
  std::string_view name;
  std::string_view options;  // with colons between them
};

// Cuts the next item off the front of *text; false when there is none left.
bool trace_next_item(std::string_view* text, TraceItem* item);
// The options of an item. EINVAL, with an error string, for invalid options or an invalid name.
Result<TraceOptions> trace_check_item(const TraceItem& item);

// Plain data, so that the effect of several commands can be tried on a copy.
class TraceLater {
 public:
  // Sets the value of `trace=`, at boot; the text must stay valid. Invalid items are ignored.
  void expect(std::string_view items);
  // Applies a command for all. EBUSY for a start with other options, ENOSPC for a mark too many,
  // with an error string and nothing changed.
  Result<void> advance(const TraceCommand& command);

  // The options for the trace of a cache or arena that is made as `name`; none if it is not traced.
  std::optional<TraceOptions> wants(std::string_view name) const;
  // True if there is an item with that name.
  bool names(std::string_view name) const;
  // The first mark of a new trace: the number of marks of all since the first start.
  uint32_t mark() const { return mark_; }

  // For reports: the options for all, if there is such a request, and the items of the command
  // line.
  std::optional<TraceOptions> all() const { return all_; }
  std::string_view items() const { return items_; }

  // The number of caches and arenas that could not be traced for lack of memory.
  uint32_t untraced() const { return untraced_; }
  void count_untraced() { untraced_++; }

 private:
  TracePhase phase_ = TracePhase::kOff;
  std::optional<TraceOptions> all_;
  std::string_view items_;
  uint32_t mark_ = 0;
  uint32_t untraced_ = 0;
};
