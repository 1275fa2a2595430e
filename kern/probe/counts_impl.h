// A copy of a session's counts, for reading: the sums over all CPUs, largest first.
#pragma once

#include <cstdint>

#include "intern/context_table.h"
#include "intern/page_array.h"
#include "intern/shared_tables.h"
#include "intern/stack_counts.h"
#include "intern/stack_table.h"
#include "probe/options_impl.h"

class ProbeCounts {
 public:
  struct Row {
    StackId kernel, user;  // kNone: not distinguished, or not recorded
    ContextId context;     // kNone: not distinguished, or not recorded
    uint64_t count;
  };

  // The caller keeps the stacks and contexts in the tables valid while this object is used.
  ProbeCounts(const StackTable& stacks, const ContextTable& contexts, ProbeApart apart)
      : stacks_(stacks), contexts_(contexts), apart_(apart) {}

  // Adds a CPU's counts, which may change meanwhile. ENOMEM. May sleep.
  Result<void> add(const StackCounts::CpuTable& part);
  // Called after the last add(): merges equal rows.
  void finish();
  // Retains the stacks and contexts of all rows. After finish().
  void retain(Retained& retained) const;

  uint32_t size() const { return static_cast<uint32_t>(rows_.size()); }
  const Row& operator[](uint32_t index) const { return rows_[index]; }
  uint64_t total() const { return total_; }
  const StackTable& stacks() const { return stacks_; }
  const ContextTable& contexts() const { return contexts_; }
  ProbeApart apart() const { return apart_; }

 private:
  Row row_of(StackCounts::Key key, uint64_t count) const;
  int compare(const Row& a, const Row& b) const;
  template <typename Less>
  void sort(Less less);

  const StackTable& stacks_;
  const ContextTable& contexts_;
  const ProbeApart apart_;
  PageArray<Row> rows_;
  uint64_t total_ = 0;
};
