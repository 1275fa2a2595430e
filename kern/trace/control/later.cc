#include "trace/control/later_impl.h"

#include "core/errstr.h"
#include "slab.h"
#include "trace/record/table.h"

namespace {

constexpr std::string_view kAll = "all";

// Removes the front of *text up to the first `separator`, with the separator, and returns this
// front without the separator. If there is no separator, removes and returns all of *text.
std::string_view cut(std::string_view* text, char separator) {
  const size_t end = text->find(separator);
  const std::string_view front = text->substr(0, end);
  text->remove_prefix(end == text->npos ? text->size() : end + 1);
  return front;
}

// The options of the first item that has options.
std::string_view next_options(std::string_view items) {
  while (!items.empty()) {
    std::string_view item = cut(&items, ',');
    const bool has_options = item.find(':') != item.npos;
    cut(&item, ':');
    if (has_options) return item;
  }
  return {};
}

bool can_be_a_name(std::string_view text) {
  if (text.size() >= KMEM_CACHE_NAME_MAX) return false;
  char name[KMEM_CACHE_NAME_MAX] = {};
  text.copy(name, sizeof(name) - 1);
  return kmem_is_name(name) != 0;
}

// The options of the first valid item with this name.
std::optional<TraceOptions> find_item(std::string_view items, std::string_view name) {
  for (TraceItem item; trace_next_item(&items, &item);) {
    if (item.name != name) continue;
    if (Result<TraceOptions> options = trace_check_item(item)) return *options;
  }
  return {};
}

}  // namespace

bool trace_next_item(std::string_view* text, TraceItem* item) {
  if (text->empty()) return false;
  std::string_view rest = cut(text, ',');
  const bool has_options = rest.find(':') != rest.npos;
  item->name = cut(&rest, ':');
  item->options = has_options ? rest : next_options(*text);
  return true;
}

Result<TraceOptions> trace_check_item(const TraceItem& item) {
  if (!can_be_a_name(item.name))
    return fail(Errno::EINVAL, "no cache or arena can have that name, and it is not \"all\"");
  return trace_parse_options(item.options, ':');
}

void TraceLater::expect(std::string_view items) {
  phase_ = TracePhase::kRunning;
  items_ = items;
  all_ = find_item(items, kAll);
}

Result<void> TraceLater::advance(const TraceCommand& command) {
  switch (command.word) {
    case TraceWord::kStart:
      if (all_ && *all_ != command.options) {
        char options[TraceOptions::kMaxFilters + 16];
        all_->format_as_typed(options, sizeof(options));
        return fail(Errno::EBUSY, "later caches and arenas are traced with%s: stop it first",
                    options);
      }
      phase_ = TracePhase::kRunning;
      all_ = command.options;
      untraced_ = 0;
      break;
    case TraceWord::kStop:
      if (phase_ == TracePhase::kRunning) phase_ = TracePhase::kStopped;
      all_.reset();
      items_ = {};
      break;
    case TraceWord::kReset:
      if (phase_ == TracePhase::kStopped) *this = {};
      break;
    case TraceWord::kMark:
      if (phase_ == TracePhase::kOff) break;
      if (mark_ == TraceTable::kMaxMark) {
        return fail(Errno::ENOSPC,
                    "there have been %u marks, and there are no more: stop and reset", mark_);
      }
      mark_++;
      break;
    default:
      break;
  }
  return {};
}

bool TraceLater::names(std::string_view name) const {
  return name != kAll && find_item(items_, name);
}

std::optional<TraceOptions> TraceLater::wants(std::string_view name) const {
  return names(name) ? find_item(items_, name) : all_;
}
