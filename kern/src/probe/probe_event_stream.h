// The events of a session: from hits to the one who reads them.
//
// There is a ring (probe_events.h) from when functions are started whose calls are events, or from
// when a reader opens the stream. It is replaced before the first start only, while it is empty.
//
// put() takes no lock. `reading_`, a leaf among the sleeping locks, keeps readers and clear() apart
// and the ring that they use alive. Control serialises make() and open().
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/cpu.h"
#include "core/sleep.h"
#include "probe/probe_events.h"
#include "store/shared_tables.h"

class ProbeEventStream {
 public:
  ProbeEventStream() = default;
  ~ProbeEventStream();
  ProbeEventStream(const ProbeEventStream&) = delete;
  ProbeEventStream& operator=(const ProbeEventStream&) = delete;

  // --- Control. May sleep.

  // Makes sure that there is a ring which keeps `values` values of each event. If there is one
  // with fewer, no hit has come yet. ENOMEM, with an error string.
  Result<void> make(uint32_t values);
  // From now on what is allocated and freed is an event too. ENOMEM, with an error string.
  Result<void> open();
  // Forgets all.
  void clear();
  // For the sweeper, at any time: marks the contexts of the events that are there.
  void mark(StoreMark& mark);

  // --- Hits. Interrupts and probes off, any lock may be held.

  // Whether what is allocated and freed is an event.
  bool wants_objects() const { return wants_objects_.load(std::memory_order_acquire); }
  // False if it is lost. There is a ring.
  bool put(ProbeEvent::Kind kind, const char* name, const Cpu& cpu, const uint64_t* values,
           size_t count);

  // --- Readers, after open(). May sleep.

  // The next event, as ProbeEvents::take(); false if there is none. Its context has a meaning as
  // long as the StoreReading that the caller is in.
  bool take(ProbeEvent* event, bool* any, uint64_t* lost);
  bool empty();

 private:
  // Read by hits.
  std::atomic<ProbeEvents*> ring_{nullptr};
  std::atomic<bool> wants_objects_{false};

  Mutex reading_{LockRank::kDeviceMutex};
};
