#include "probe/events_impl.h"

#include <algorithm>
#include <new>

#include "intern/trace_memory.h"

ProbeEvents* ProbeEvents::create(size_t pages, uint32_t values) {
  void* memory = trace_copy_alloc(sizeof(ProbeEvents));
  if (!memory) return nullptr;
  auto* events = new (memory) ProbeEvents(values);
  for (size_t i = 0; i < std::min(pages, kMaxPages); i++) {
    trace_memory_prepare();
    events->pages_[i] = static_cast<uint8_t*>(trace_page_take());
    if (!events->pages_[i]) break;
    events->capacity_ += events->per_page_;
  }
  for (uint32_t i = 0; i < events->capacity_; i++) {
    new (&events->slot_at(i)) Slot{};
    events->slot_at(i).turn.store(i, std::memory_order_relaxed);
  }
  if (events->capacity_ > 0) return events;
  destroy(events);
  return nullptr;
}

void ProbeEvents::destroy(ProbeEvents* events) {
  for (uint8_t* page : events->pages_) {
    if (page) trace_page_free(page);
  }
  events->~ProbeEvents();
  trace_copy_free(events, sizeof(ProbeEvents));
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
  slot->time = event.time;
  slot->name = event.name;
  slot->pid = event.pid;
  slot->context = event.context;
  slot->lost = 0;
  slot->cpu = static_cast<uint16_t>(event.cpu);
  slot->kind = event.kind;
  std::copy_n(event.values, values_, slot->values());
  if (lost_.load(std::memory_order_relaxed) != 0) [[unlikely]] {
    const uint64_t lost = lost_.exchange(0, std::memory_order_relaxed);
    slot->lost = static_cast<uint32_t>(std::min<uint64_t>(lost, UINT32_MAX));
    lost_.fetch_add(lost - slot->lost, std::memory_order_relaxed);
  }
  slot->turn.store(place + 1, std::memory_order_release);
  return true;
}

bool ProbeEvents::take(ProbeEvent* event, bool* any, uint64_t* lost) {
  Slot& slot = slot_at(first_);
  *any = slot.turn.load(std::memory_order_acquire) == first_ + 1;
  if (!*any) {
    if (next_.load(std::memory_order_relaxed) != first_) return false;  // a CPU is filling it in
    *lost = lost_.exchange(0, std::memory_order_relaxed);
    return *lost > 0;
  }
  *event = {.time = slot.time,
            .name = slot.name,
            .values = {},
            .pid = slot.pid,
            .context = slot.context,
            .cpu = CpuId{slot.cpu},
            .kind = slot.kind};
  std::copy_n(slot.values(), values_, event->values);
  *lost = slot.lost;
  slot.turn.store(first_ + capacity_, std::memory_order_release);
  first_++;
  return true;
}

bool ProbeEvents::empty() const {
  return next_.load(std::memory_order_relaxed) == first_ &&
         lost_.load(std::memory_order_relaxed) == 0;
}

void ProbeEvents::clear() {
  ProbeEvent event;
  bool any;
  uint64_t lost;
  for (uint64_t i = 0; i < capacity_ && take(&event, &any, &lost); i++) {
  }
}
