// The events of a session, from hits to their reader: a bounded queue.
//
// A ring of slots, each with a sequence number (D. Vyukov's bounded queue). Events are numbered in
// the order of arrival. The sequence number of the slot for event p is p while the slot can be
// filled, and p + 1 while it can be read. The reader sets the number to p + N, where N is the
// number of slots. A producer takes the next position by compare-and-swap and then fills the slot.
// A producer takes no lock, so it may run with any lock held and interrupts off. If the next slot
// has not been read yet, the event is lost and counted. The next event that is stored carries the
// count, so the reader sees where events were lost.
//
// The slots' length depends on the queue's events: the six arguments of a call need more space than
// an object and its size.
//
// One reader at a time. Producers do not wake the reader, since waking takes locks that the probed
// code may hold: the reader polls at short intervals.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "intern/ids.h"
#include "lib/units.h"

struct ProbeEvent {
  enum class Kind : uint8_t { kCall, kReturn, kAlloc, kFree };

  uint64_t time;     // nanoseconds since boot
  const char* name;  // name of the function; lives as long as the session
  static constexpr uint32_t kMaxValues = 6;
  uint64_t values[kMaxValues];  // arguments; or a result; or an object and its size
  uint32_t pid;
  ContextId context;  // process, kernel task or interrupt; kNone: could not be stored
  CpuId cpu;
  Kind kind;
};

class ProbeEvents {
 public:
  static constexpr size_t kMaxPages = 1024;

  // Makes a queue of `pages` pages of trace memory, or of fewer pages if memory is short; nullptr
  // if there is not even one page. The queue stores the first `values` values of each event. The
  // caller holds no tracer lock. May sleep.
  static ProbeEvents* create(size_t pages, uint32_t values);
  static void destroy(ProbeEvents* events);

  // False if the event is lost. Any context but NMI. Lock-free.
  bool put(const ProbeEvent& event);
  // If an event would be lost now, counts a lost event and returns true. Called before the values
  // of an event are collected, because collecting them is expensive if the functions that do so
  // are probed, too. Any context but NMI. Lock-free.
  [[gnu::always_inline]] bool lose_if_full() {
    const uint64_t place = next_.load(std::memory_order_relaxed);
    if (static_cast<int64_t>(slot_at(place).turn.load(std::memory_order_acquire) - place) >= 0)
      return false;
    lost_.fetch_add(1, std::memory_order_relaxed);
    return true;
  }
  // Gets the next event, and sets `*lost` to the number of events lost before it. If no event is
  // stored but events were lost, sets `*any` to false and `*lost` to their number. Returns false if
  // there is neither an event nor a lost event. One reader at a time.
  bool take(ProbeEvent* event, bool* any, uint64_t* lost);
  bool empty() const;
  // Calls visit(context) for each event in the queue. Called by the reader, as take() is; CPUs may
  // put() meanwhile.
  template <typename Visit>
  void visit_contexts(Visit visit) {
    for (uint64_t place = first_; place < first_ + capacity_; place++) {
      const Slot& slot = slot_at(place);
      if (slot.turn.load(std::memory_order_acquire) == place + 1) visit(slot.context);
    }
  }
  // Forgets all events. Called by the reader, as take() is.
  void clear();
  uint32_t capacity() const { return capacity_; }
  uint32_t values() const { return values_; }

 private:
  struct Slot {
    std::atomic<uint64_t> turn;  // the slot's sequence number
    uint64_t time;
    const char* name;
    uint32_t pid;
    ContextId context;
    uint32_t lost;  // events lost before this event
    uint16_t cpu;
    ProbeEvent::Kind kind;
    uint64_t* values() { return reinterpret_cast<uint64_t*>(this + 1); }
  };
  static_assert(sizeof(Slot) == 40);

  explicit ProbeEvents(uint32_t values)
      : values_(values),
        stride_(sizeof(Slot) + values * 8),
        per_page_(static_cast<uint32_t>(kPageSize) / stride_) {}
  [[gnu::always_inline]] Slot& slot_at(uint64_t place) {
    const auto index = static_cast<uint32_t>(place % capacity_);
    return *reinterpret_cast<Slot*>(pages_[index / per_page_] +
                                    size_t{index % per_page_} * stride_);
  }

  const uint32_t values_, stride_, per_page_;
  uint32_t capacity_ = 0;
  uint64_t first_ = 0;  // position of the oldest event; used by the reader only
  alignas(64) std::atomic<uint64_t> next_{0};  // position of the next event
  std::atomic<uint64_t> lost_{0};              // lost events that no stored event has counted yet
  std::array<uint8_t*, kMaxPages> pages_ = {};
};
