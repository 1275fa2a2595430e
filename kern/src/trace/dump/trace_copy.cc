#include "trace/dump/trace_copy.h"

#include <algorithm>

Result<void> TraceCopy::take(TraceTable& table, uint64_t (*now)()) {
  TRY(copy_records(table));
  now_ = now();
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

void TraceCopy::sort() {
  std::sort(records_.data(), records_.data() + size_,
            [this](const TraceRecord& a, const TraceRecord& b) {
              if (a.stack != b.stack) return a.stack < b.stack;
              if (a.milliseconds() != b.milliseconds()) return a.milliseconds() < b.milliseconds();
              return a.object() < b.object();
            });
}
