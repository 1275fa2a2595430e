#include "trace/dump/trace_copy.h"

#include <algorithm>

Result<void> TraceCopy::take(TraceTable& table, const StackTable& stacks, uint64_t (*now)()) {
  TRY(copy_records(table));
  now_ = now();
  split(stacks);
  sort();
  for (uint32_t i = 0; i < size_; i++) stacks_ += begins_stack(i) && records_[i].stack != 0;
  return {};
}

Result<void> TraceCopy::copy_records(TraceTable& table) {
  const TraceCounters guess = table.counters();
  TRY(records_.reserve(guess.live() + guess.live() / 8 + 1));
  size_t count = 0;
  for (unsigned shard = 0; shard < TraceTable::kShards;) {
    if (table.copy_shard(shard, records_.data(), records_.capacity(), &count, &counters_)) {
      shard++;
    } else {
      TRY(records_.reserve(2 * records_.capacity(), count));
    }
  }
  size_ = static_cast<uint32_t>(count);
  return {};
}

// Records that lie together are mostly from one place.
void TraceCopy::split(const StackTable& stacks) {
  uint32_t last = 0;
  StackTable::Pair pair = {0, 0};
  for (uint32_t i = 0; i < size_; i++) {
    if (records_[i].stack != last) pair = stacks.split(last = records_[i].stack);
    records_[i].stack = pair.stack;
    records_[i].user_stack = pair.user_stack;
  }
}

// Most of a dump's time is spent here.
void TraceCopy::sort() {
  TraceRecord* const begin = records_.data();
  TraceRecord* const end = begin + size_;
  const bool one_epoch = std::all_of(begin, end, [begin](const TraceRecord& record) {
    return record.high_milliseconds() == begin->high_milliseconds();
  });
  if (one_epoch) {
    std::sort(begin, end, [](const TraceRecord& a, const TraceRecord& b) {
      if (a.stack != b.stack) return a.stack < b.stack;
      if (a.low_milliseconds() != b.low_milliseconds())
        return a.low_milliseconds() < b.low_milliseconds();
      return a.object() < b.object();
    });
  } else {
    std::sort(begin, end, [](const TraceRecord& a, const TraceRecord& b) {
      if (a.stack != b.stack) return a.stack < b.stack;
      if (a.milliseconds() != b.milliseconds()) return a.milliseconds() < b.milliseconds();
      return a.object() < b.object();
    });
  }
}

void TraceCopy::mark(StoreMark& mark) const {
  for (uint32_t i = 0; i < size_; i++) {
    const TraceRecord& record = records_[i];
    mark.stack(record.stack);
    mark.stack(record.user_stack);
    mark.context(record.context);
  }
}
