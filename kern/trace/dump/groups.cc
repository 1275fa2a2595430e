#include "trace/dump/groups_impl.h"

void TraceGroups::add_up(TraceSnapshot& snapshot, TraceSnapshot::Slice& slice, uint64_t rate) {
  SampleSum sum(rate);
  StackId last = StackId::kNone;  // `stack` of the last record
  uint32_t number = kNone;        // number of the last record's group
  snapshot.visit(slice, [&](const TraceRecord& record) {
    if (number == kNone || record.stack != last) {
      last = record.stack;
      number = groups_.find_or_add(last);
    }
    (number == kNone ? rest_ : groups_[number]).add(record, sum.add(record.size()));
  });
  estimate_ = sum.sum();
  groups_.sort([](const TraceGroup& a, const TraceGroup& b) {
    if (a.estimate.bytes != b.estimate.bytes) return a.estimate.bytes > b.estimate.bytes;
    if (a.objects != b.objects) return a.objects > b.objects;
    return a.stack < b.stack;
  });
  groups_.reindex();
}
