#include "probe/counts_impl.h"

#include <algorithm>

#include "lib/string.h"

Result<void> ProbeCounts::add(const StackCounts::CpuTable& part) {
  Result<void> added;
  part.visit([&](StackCounts::Key key, uint64_t count) {
    if (added) added = rows_.push(row_of(key, count));
  });
  return added;
}

ProbeCounts::Row ProbeCounts::row_of(StackCounts::Key key, uint64_t count) const {
  Row row = {.kernel = StackId::kNone,
             .user = StackId::kNone,
             .context = ContextId::kNone,
             .count = count};
  const StackTable::Pair pair = stacks_.split(key.stack);
  row.user = pair.user_stack;
  if (const StackTable::View view = stacks_.view(pair.stack))
    (view.kind() == StackKind::kKernel ? row.kernel : row.user) = pair.stack;
  if (apart_ != ProbeApart::kPrograms || row.user != StackId::kNone) row.context = key.context();
  return row;
}

int ProbeCounts::compare(const Row& a, const Row& b) const {
  if (a.kernel != b.kernel) return a.kernel < b.kernel ? -1 : 1;
  if (a.user != b.user) return a.user < b.user ? -1 : 1;
  if (a.context == b.context) return 0;
  if (a.context == ContextId::kNone || b.context == ContextId::kNone ||
      apart_ == ProbeApart::kThreads)
    return a.context < b.context ? -1 : 1;
  const ContextTable::Context& of_a = *contexts_.get(a.context);
  const ContextTable::Context& of_b = *contexts_.get(b.context);
  const ContextTable::Program &x = *of_a.program, &y = *of_b.program;
  if (apart_ == ProbeApart::kProcesses) {
    if (of_a.pid != of_b.pid) return of_a.pid < of_b.pid ? -1 : 1;
    if (of_a.kind != of_b.kind) return of_a.kind < of_b.kind ? -1 : 1;
    return &x == &y ? 0 : &x < &y ? -1 : 1;
  }
  // A program that ran under several names has several Program structures, with equal path and
  // build id.
  if (&x == &y) return 0;
  if (const int order = strcmp(x.path, y.path)) return order;
  if (x.build_id_size != y.build_id_size) return x.build_id_size < y.build_id_size ? -1 : 1;
  return memcmp(x.build_id.data(), y.build_id.data(), x.build_id_size);
}

// Sorts the rows by a heap. std::sort would need 9 KiB of the stack for a million rows.
template <typename Less>
void ProbeCounts::sort(Less less) {
  std::make_heap(rows_.begin(), rows_.end(), less);
  std::sort_heap(rows_.begin(), rows_.end(), less);
}

void ProbeCounts::finish() {
  // Rows that compare equal are in the order of their contexts, so that the merged row has the
  // lowest ContextId of its rows.
  sort([this](const Row& a, const Row& b) {
    const int order = compare(a, b);
    return order != 0 ? order < 0 : a.context < b.context;
  });
  size_t kept = 0;
  for (size_t i = 0; i < rows_.size(); i++) {
    total_ += rows_[i].count;
    if (kept > 0 && compare(rows_[kept - 1], rows_[i]) == 0) {
      rows_[kept - 1].count += rows_[i].count;
    } else {
      rows_[kept++] = rows_[i];
    }
  }
  rows_.shrink(kept);
  sort([](const Row& a, const Row& b) {
    if (a.count != b.count) return a.count > b.count;
    if (a.kernel != b.kernel) return a.kernel < b.kernel;
    return a.user != b.user ? a.user < b.user : a.context < b.context;
  });
}

void ProbeCounts::retain(Retained& retained) const {
  for (size_t i = 0; i < rows_.size(); i++) {
    retained.stack(rows_[i].kernel);
    retained.stack(rows_[i].user);
    retained.context(rows_[i].context);
  }
}
