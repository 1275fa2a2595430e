#include "probe_events.h"

#include <algorithm>
#include <new>

#include "trace_memory.h"

static_assert(sizeof(ProbeEvents) <= kPageSize);

ProbeEvents* ProbeEvents::create(size_t pages) {
  trace_memory_prepare();
  void* memory = trace_page_take();
  if (!memory) return nullptr;
  auto* events = new (memory) ProbeEvents;
  for (size_t i = 0; i < std::min(pages, kMaxPages); i++) {
    trace_memory_prepare();
    auto* page = static_cast<Slot*>(trace_page_take());
    if (!page) break;
    events->pages_[i] = page;
    for (uint32_t s = 0; s < kPerPage; s++) {
      new (&page[s]) Slot{};
      page[s].turn.store(events->capacity_++, std::memory_order_relaxed);
    }
  }
  if (events->capacity_ > 0) return events;
  destroy(events);
  return nullptr;
}

void ProbeEvents::destroy(ProbeEvents* events) {
  for (Slot* page : events->pages_) {
    if (page) trace_page_free(page);
  }
  events->~ProbeEvents();
  trace_page_free(events);
}

bool ProbeEvents::put(const ProbeEvent& event) {
  uint64_t place = next_.load(std::memory_order_relaxed);
  Slot* slot;
  for (;;) {
    slot = &slot_at(place);
    const auto ahead = static_cast<int64_t>(slot->turn.load(std::memory_order_acquire) - place);
    if (ahead < 0) {
      lost_.fetch_add(1, std::memory_order_relaxed);
      return false;
    }
    if (ahead > 0) {
      place = next_.load(std::memory_order_relaxed);
    } else if (next_.compare_exchange_weak(place, place + 1, std::memory_order_relaxed)) {
      break;
    }
  }
  slot->event = event;
  slot->lost = lost_.load(std::memory_order_relaxed) == 0 ? 0 : lost_.exchange(0, std::memory_order_relaxed);
  slot->turn.store(place + 1, std::memory_order_release);
  return true;
}

bool ProbeEvents::take(ProbeEvent* event, bool* any, uint64_t* lost) {
  Slot& slot = slot_at(first_);
  *any = slot.turn.load(std::memory_order_acquire) == first_ + 1;
  if (!*any) {
    if (next_.load(std::memory_order_relaxed) != first_) return false;  // it is being filled in
    *lost = lost_.exchange(0, std::memory_order_relaxed);
    return *lost > 0;
  }
  *event = slot.event;
  *lost = slot.lost;
  slot.turn.store(first_ + capacity_, std::memory_order_release);
  first_++;
  return true;
}

bool ProbeEvents::empty() const {
  return next_.load(std::memory_order_relaxed) == first_ && lost_.load(std::memory_order_relaxed) == 0;
}

void ProbeEvents::clear() {
  ProbeEvent event;
  bool any;
  uint64_t lost;
  for (uint64_t i = 0; i < capacity_ && take(&event, &any, &lost); i++) {
  }
}
