#include "probe/event_stream_impl.h"

#include <algorithm>
#include <iterator>

#include "arch/x86_64/time.h"
#include "core/errstr.h"
#include "intern/current_context.h"
#include "intern/trace_memory.h"

namespace {

// An object's event has its address and size; a return's event has one value.
constexpr uint32_t kFewValues = 2;

}  // namespace

ProbeEventStream::~ProbeEventStream() {
  if (ProbeEvents* const ring = ring_.load()) ProbeEvents::destroy(ring);
}

Result<void> ProbeEventStream::make(uint32_t values) {
  ProbeEvents* const old = ring_.load(std::memory_order_relaxed);
  values = std::max(values, kFewValues);
  if (old && old->values() >= values) return {};
  constexpr uint64_t kShareOfLimit = 8;
  const uint64_t pages = std::max<uint64_t>(trace_memory_limit() / kPageSize / kShareOfLimit, 1);
  ProbeEvents* const ring = ProbeEvents::create(pages, values);
  if (!ring) return fail(Errno::ENOMEM, "no trace memory for events");
  {
    const MutexGuard reading(reading_);
    ring_.store(ring, std::memory_order_release);
  }
  if (old) ProbeEvents::destroy(old);
  return {};
}

Result<void> ProbeEventStream::open() {
  TRY(make(kFewValues));
  wants_objects_.store(true, std::memory_order_release);
  return {};
}

void ProbeEventStream::clear() {
  ProbeEvents* const ring = ring_.load(std::memory_order_relaxed);
  if (!ring) return;
  const MutexGuard reading(reading_);
  ring->clear();
}

void ProbeEventStream::retain(Retained& retained) {
  const MutexGuard reading(reading_);
  if (ProbeEvents* const ring = ring_.load(std::memory_order_acquire))
    ring->visit_contexts([&retained](ContextId context) { retained.context(context); });
}

bool ProbeEventStream::put(ProbeEvent::Kind kind, const char* name, const Cpu& cpu,
                           const uint64_t* values, size_t count) {
  ProbeEvents& ring = *ring_.load(std::memory_order_acquire);
  if (ring.lose_if_full()) return false;
  ProbeEvent event;
  event.time = monotonic_now().value;
  event.name = name;
  std::copy_n(values, count, event.values);
  std::fill(event.values + count, std::end(event.values), 0);
  event.pid = trace_current_pid();
  event.context = trace_find_base();
  event.cpu = cpu.id;
  event.kind = kind;
  return ring.put(event);
}

// First fetches pages of trace memory, because hits need these pages but must not allocate.
bool ProbeEventStream::take(ProbeEvent* event, bool* any, uint64_t* lost) {
  trace_memory_prepare();
  const MutexGuard reading(reading_);
  return ring_.load(std::memory_order_acquire)->take(event, any, lost);
}

bool ProbeEventStream::empty() {
  const MutexGuard reading(reading_);
  return ring_.load(std::memory_order_acquire)->empty();
}
