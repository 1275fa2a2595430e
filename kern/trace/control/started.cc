#include "trace/control/started.h"

namespace {

// The first table of the list. Tables are linked by next_started. Changed with the control lock
// held.
constinit std::atomic<TraceTable*> started{nullptr};

}  // namespace

TraceTable* trace_started_first() {
  return started.load(std::memory_order_acquire);
}

void trace_started_add(TraceTable* table, TraceSource source) {
  table->source = source;
  table->next_started.store(started.load(std::memory_order_relaxed), std::memory_order_relaxed);
  started.store(table, std::memory_order_release);
}

void trace_started_remove(TraceTable* table) {
  std::atomic<TraceTable*>* link = &started;
  while (link->load(std::memory_order_relaxed) != table)
    link = &link->load(std::memory_order_relaxed)->next_started;
  link->store(table->next_started.load(std::memory_order_relaxed), std::memory_order_release);
}
