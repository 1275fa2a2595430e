#include "trace/record/counters_impl.h"

#include "trace/record/sampler.h"

TraceCounters& TraceCounters::operator+=(const TraceCounters& other) {
  for (const TraceCounter& counter : kTraceCounters) this->*counter.value += other.*counter.value;
  return *this;
}

void TraceCounters::set_estimate(const SampleWeight& weight) {
  estimated_bytes = weight.whole_bytes();
  estimated_objects = weight.whole_objects();
}
