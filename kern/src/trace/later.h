// What is to be traced that does not exist yet: a `start` of all, and the names on the kernel
// command line, hold for caches and arenas that are made later too, until all are stopped.
//
//   trace=ITEM[,ITEM...]      ITEM: NAME[:KEY=N...] or all[:KEY=N...], with the options of `start`
//
// Options hold for their item and for those before it that have no colon of their own. An item with
// a name goes before `all`, wherever it stands; of two with one name the first one counts. A name
// means whatever is made under it, NAME.2 and so on too.
//
// Nothing here touches a cache: control.cc starts what this wants. The text of the command line is
// kept as it is, and read again for each cache that is made, which is seldom.
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
// Its options. EINVAL, with an error string, for those, or for a name that nothing can have.
Result<TraceOptions> trace_check_item(const TraceItem& item);

// Plain data, so that the effect of several commands can be tried on a copy.
class TraceLater {
 public:
  // From boot on: the value of `trace=`, which stays where it is. Items that are wrong want
  // nothing.
  void expect(std::string_view items);
  // What a command for all does to it. EBUSY for a start with other options, ENOSPC for a mark too
  // many, with an error string and nothing changed.
  Result<void> advance(const TraceCommand& command);

  // With which options a cache or arena that is made as `name` is to be traced, if it is.
  std::optional<TraceOptions> wants(std::string_view name) const;
  // Whether there is an item with that name.
  bool names(std::string_view name) const;
  // The mark with which it begins: as many as all have had since the first start.
  uint32_t mark() const { return mark_; }

  // For reports: the options for all, if that is wanted, and the items of the command line.
  std::optional<TraceOptions> all() const { return all_; }
  std::string_view items() const { return items_; }

  // How many should have been traced since, and could not be for want of memory.
  uint32_t untraced() const { return untraced_; }
  void count_untraced() { untraced_++; }

 private:
  TracePhase phase_ = TracePhase::kOff;
  std::optional<TraceOptions> all_;
  std::string_view items_;
  uint32_t mark_ = 0;
  uint32_t untraced_ = 0;
};
