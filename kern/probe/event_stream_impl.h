// The events of a session, from hits to their reader.
//
// The ring (probe/events_impl.h) is created at the start of a session that has functions with
// events, or when a reader opens the stream. A larger ring may replace the ring only before the
// first hit.
//
// put() takes no lock. `reading_`, a leaf among the sleeping locks, serialises readers and clear(),
// and keeps the ring alive while they use it. The session serialises make() and open().
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/cpu.h"
#include "core/sleep.h"
#include "intern/shared_tables.h"
#include "probe/events_impl.h"

class ProbeEventStream {
 public:
  ProbeEventStream() = default;
  ~ProbeEventStream();
  ProbeEventStream(const ProbeEventStream&) = delete;
  ProbeEventStream& operator=(const ProbeEventStream&) = delete;

  // --- Control. May sleep.

  // If there is no ring, makes one that stores `values` values of each event. If the ring stores
  // fewer values, replaces it; no hit may have used the old ring. ENOMEM, with an error string.
  Result<void> make(uint32_t values);
  // From this call on, each allocation and each free is an event, too. ENOMEM, with an error
  // string.
  Result<void> open();
  // Forgets all events.
  void clear();
  // For the sweeper (intern/sweeper.h), at any time: retains the contexts of the events in the
  // ring.
  void retain(Retained& retained);

  // --- Hits. Interrupts and probes off, any lock may be held.

  // True if each allocation and each free is an event.
  bool wants_objects() const { return wants_objects_.load(std::memory_order_acquire); }
  // False if the event is lost. The ring must exist.
  bool put(ProbeEvent::Kind kind, const char* name, const Cpu& cpu, const uint64_t* values,
           size_t count);

  // --- Readers, after open(). May sleep.

  // Gets the next event; the results are those of ProbeEvents::take(). The event's context is valid
  // until the caller's NumbersReading ends.
  bool take(ProbeEvent* event, bool* any, uint64_t* lost);
  bool empty();

 private:
  // Hits read `ring_` and `wants_objects_` without a lock.
  std::atomic<ProbeEvents*> ring_{nullptr};
  std::atomic<bool> wants_objects_{false};

  Mutex reading_{LockRank::kDeviceMutex};
};
