#include "summary.h"

#include <algorithm>

#include "lib/format.h"
#include "symbols.h"

namespace {

constexpr size_t kLine = 256;

size_t set_of(const char* name, uint32_t stack) {
  return ((reinterpret_cast<uintptr_t>(name) ^ stack) * 0x9e3779b97f4a7c15 >> 32) % TraceSummary::kSets;
}

}  // namespace

void TraceSummary::clear() {
  for (auto& set : places_) std::fill_n(set, kWays, Place{});
  total_ = others_ = {};
  tables_ = locked_shards_ = 0;
}

void TraceSummary::add(const char* name, TraceTable& table) {
  tables_++;
  for (unsigned shard = 0; shard < TraceTable::kShards; shard++) {
    const bool visited = table.try_visit(shard, [&](const TraceRecord& record) { add_record(name, record); });
    locked_shards_ += !visited;
  }
}

void TraceSummary::add_record(const char* name, const TraceRecord& record) {
  const Sum sum{.objects = 1, .bytes = record.size};
  total_ += sum;
  Place* smallest = nullptr;
  for (Place& place : places_[set_of(name, record.stack)]) {
    if (place.name == name && place.stack == record.stack) {
      place.objects += sum.objects;
      place.bytes += sum.bytes;
      return;
    }
    if (!place.name) {
      smallest = &place;
      break;  // places are filled from the front
    }
    if (!smallest || place.bytes < smallest->bytes) smallest = &place;
  }
  if (smallest->name) others_ += {smallest->objects, smallest->bytes};
  *smallest = {.name = name, .bytes = sum.bytes, .objects = sum.objects, .stack = record.stack};
}

TraceSummary::Place* TraceSummary::largest() {
  Place* found = nullptr;
  for (auto& set : places_) {
    for (Place& place : set) {
      if (place.objects > 0 && (!found || place.bytes > found->bytes)) found = &place;
    }
  }
  return found;
}

void TraceSummary::print(unsigned top, const StackTable& stacks, void (*line)(const char* text)) {
  const bool lower_bounds = others_.objects > 0;
  for (unsigned i = 0; i < top; i++) {
    Place* const place = largest();
    if (!place) break;
    print_stack(*place, stacks, line);
    *place = {.name = place->name, .bytes = 0, .objects = 0, .stack = place->stack};
  }
  Sum rest = others_;
  unsigned rest_stacks = 0;
  for (const auto& set : places_) {
    for (const Place& place : set) {
      rest += {place.objects, place.bytes};
      rest_stacks += place.objects > 0;
    }
  }
  char text[kLine];
  if (rest.objects > 0) {
    format(text, sizeof(text), "  others: %lu bytes in %lu allocations from %u%s stacks", rest.bytes, rest.objects,
           rest_stacks, lower_bounds ? " or more" : "");
    line(text);
  }
  if (lower_bounds) {
    format(text, sizeof(text), "  there are more than %zu stacks: some of the others may be from those above",
           kSets * kWays);
    line(text);
  }
  if (locked_shards_ > 0) {
    format(text, sizeof(text), "  not known: %u of %u parts of the traces were locked", locked_shards_,
           tables_ * TraceTable::kShards);
    line(text);
  }
}

void TraceSummary::print_stack(const Place& place, const StackTable& stacks, void (*line)(const char* text)) {
  char text[kLine];
  format(text, sizeof(text), "  %lu bytes in %lu allocations of %s from stack", place.bytes, place.objects, place.name);
  line(text);
  if (place.stack == 0) return line("    the stack was not recorded");
  const StackTable::View stack = stacks.view(place.stack);
  for (size_t i = 0; i < stack.size(); i++) {
    if (i == kFramesShown) {
      format(text, sizeof(text), "    … %zu more", stack.size() - i);
      return line(text);
    }
    size_t length = static_cast<size_t>(format(text, sizeof(text), "    "));
    symbol_format(text + length, sizeof(text) - length, stack[i]);
    line(text);
  }
}
