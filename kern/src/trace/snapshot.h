// A table at one moment, for a reader that takes its time.
#pragma once

#include <cstdint>
#include <span>
#include <type_traits>

#include "lib/result.h"
#include "store/page_buffer.h"
#include "trace/trace_table.h"

class TraceSnapshot {
 public:
  static constexpr uint32_t kSlice = 64;

  TraceSnapshot() = default;
  TraceSnapshot(const TraceSnapshot&) = delete;
  TraceSnapshot& operator=(const TraceSnapshot&) = delete;
  ~TraceSnapshot() { close(); }

  void choose(TraceTable& table) { table_ = &table; }
  Result<void> open() {
    const TraceCounters guess = table_->counters();
    TRY(records_.reserve(guess.live() + guess.live() / 8 + 1));
    size_t count = 0;
    for (unsigned shard = 0; shard < TraceTable::kShards;) {
      if (table_->copy_shard(shard, records_.data(), records_.capacity(), &count, &counters_)) {
        shard++;
      } else {
        TRY(records_.reserve(2 * records_.capacity(), count));
      }
    }
    open_ = true;
    return {};
  }
  Result<void> open(TraceTable& table) {
    choose(table);
    return open();
  }

  bool is_open() const { return open_; }
  const TraceCounters& counters() const { return counters_; }
  const TraceTable& table() const { return *table_; }

  class Walk {
   public:
    explicit Walk(TraceSnapshot& snapshot) : snapshot_(&snapshot) {}
    std::span<const TraceRecord> next() {
      const size_t count = std::min<size_t>(kSlice, snapshot_->counters_.live() - at_);
      at_ += count;
      return {snapshot_->records_.data() + at_ - count, count};
    }

   private:
    TraceSnapshot* snapshot_;
    size_t at_ = 0;
  };

  template <typename Visit>
  bool visit(Visit visit) {
    Walk walk(*this);
    for (std::span<const TraceRecord> slice; !(slice = walk.next()).empty();) {
      for (const TraceRecord& record : slice) {
        if constexpr (std::is_same_v<decltype(visit(record)), bool>) {
          if (!visit(record)) return false;
        } else {
          visit(record);
        }
      }
    }
    return true;
  }

  void close() { open_ = false; }

 private:
  TraceTable* table_ = nullptr;
  bool open_ = false;
  TraceCounters counters_ = {};
  PageBuffer<TraceRecord> records_;
};
