#include "trace/dump/summary_impl.h"

#include <algorithm>

#include "core/symbols.h"
#include "lib/format.h"

namespace {

constexpr size_t kLine = 256;
constexpr size_t kSum = 128;

size_t set_of(const char* name, StackId stack) {
  return ((reinterpret_cast<uintptr_t>(name) ^ number_of(stack)) * 0x9e3779b97f4a7c15 >> 32) %
         TraceSummary::kSets;
}

}  // namespace

void TraceSummary::Sum::format_to(char* buffer, size_t size) const {
  const auto length =
      static_cast<size_t>(format(buffer, size, "%lu bytes in %lu allocations", bytes, objects));
  if (estimate.whole_bytes() == bytes && estimate.whole_objects() == objects) return;
  if (length < size) {
    format(buffer + length, size - length, " recorded (estimated %lu bytes in %lu)",
           estimate.whole_bytes(), estimate.whole_objects());
  }
}

void TraceSummary::clear() {
  for (auto& set : slots_) std::fill_n(set, kWays, Slot{});
  total_ = others_ = {};
  tables_ = shards_ = locked_shards_ = standing_shards_ = 0;
}

void TraceSummary::add(const char* name, TraceTable& table, Others others) {
  tables_++;
  SampleSum weights(table.options().sample);
  shards_ += table.shards();
  for (unsigned shard = 0; shard < table.shards(); shard++) {
    const auto add_one = [&](const TraceRecord& record) {
      add_record(name, record.stack,
                 {.objects = 1, .bytes = record.size(), .estimate = weights.add(record.size())});
    };
    if (table.try_visit(shard, add_one)) continue;
    if (others == Others::kStandStill) {
      standing_shards_++;
      table.visit_standing(shard, add_one);
    } else {
      locked_shards_++;
    }
  }
}

void TraceSummary::add_record(const char* name, StackId stack, const Sum& sum) {
  total_ += sum;
  Slot* smallest = nullptr;
  for (Slot& slot : slots_[set_of(name, stack)]) {
    if (slot.name == name && slot.stack == stack) {
      slot.sum += sum;
      return;
    }
    if (!slot.name) {
      smallest = &slot;
      break;  // slots are filled from the front
    }
    if (!smallest || slot.sum.estimate.bytes < smallest->sum.estimate.bytes) smallest = &slot;
  }
  others_ += smallest->sum;
  *smallest = {.name = name, .stack = stack, .sum = sum};
}

TraceSummary::Slot* TraceSummary::largest() {
  Slot* found = nullptr;
  for (auto& set : slots_) {
    for (Slot& slot : set) {
      if (slot.sum.objects == 0) continue;
      if (!found || slot.sum.estimate.bytes > found->sum.estimate.bytes) found = &slot;
    }
  }
  return found;
}

void TraceSummary::print(unsigned top, const StackTable& stacks, void (*line)(const char* text)) {
  const bool lower_bounds = others_.objects > 0;
  for (unsigned i = 0; i < top; i++) {
    Slot* const slot = largest();
    if (!slot) break;
    print_stack(*slot, stacks, line);
    slot->sum = {};
  }
  Sum rest = others_;
  unsigned rest_stacks = 0;
  for (const auto& set : slots_) {
    for (const Slot& slot : set) {
      rest += slot.sum;
      rest_stacks += slot.sum.objects > 0;
    }
  }
  char text[kLine];
  if (rest.objects > 0) {
    char sum[kSum];
    rest.format_to(sum, sizeof(sum));
    format(text, sizeof(text), "  others: %s from %u%s stacks", sum, rest_stacks,
           lower_bounds ? " or more" : "");
    line(text);
  }
  if (lower_bounds) {
    format(text, sizeof(text),
           "  there are more than %zu stacks: some of the others may be from those above",
           kSets * kWays);
    line(text);
  }
  if (locked_shards_ > 0) {
    format(text, sizeof(text), "  not known: %u of %u parts of the traces were locked",
           locked_shards_, shards_);
    line(text);
  }
  print_unsure(line);
}

[[gnu::noinline]] void TraceSummary::print_unsure(void (*line)(const char* text)) const {
  if (standing_shards_ == 0) return;
  char text[kLine];
  format(text, sizeof(text),
         "  %u of %u parts of the traces were being changed: one record of each may be wrong",
         standing_shards_, shards_);
  line(text);
}

void TraceSummary::print_stack(const Slot& slot, const StackTable& stacks,
                               void (*line)(const char* text)) {
  char text[kLine];
  char sum[kSum];
  slot.sum.format_to(sum, sizeof(sum));
  format(text, sizeof(text), "  %s of %s from stack", sum, slot.name);
  line(text);
  if (slot.stack == StackId::kNone) return line("    the stack was not recorded");
  const StackTable::View stack = stacks.view(slot.stack);
  for (size_t i = 0; i < stack.size(); i++) {
    if (i == kFramesShown) {
      format(text, sizeof(text), "    ... %zu more", stack.size() - i);
      return line(text);
    }
    size_t length = static_cast<size_t>(format(text, sizeof(text), "    "));
    symbol_format(text + length, sizeof(text) - length, stack[i]);
    line(text);
  }
}
