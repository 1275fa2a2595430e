// The events of a session, from hits to their reader: a bounded queue.
//
// A ring of slots, each with a sequence number (D. Vyukov's bounded queue). For event p in the
// order of arrival, the slot's number is p when the slot can be filled, p + 1 when it can be read,
// and p + slots after it was read. A producer takes the next position by compare-and-swap and then
// fills the slot. It takes no lock, so it may hold any lock and have interrupts off. If the next
// slot has not been read yet, the event is lost and counted; the next event that is stored carries
// the count, so the reader sees where events were lost.
//
// The slots' length depends on the queue's events: the six arguments of a call are longer than an
// object and its size.
//
// One reader at a time. Producers do not wake it, since that takes locks that a hit's context may
// hold: the reader polls at short intervals.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "lib/units.h"

struct ProbeEvent {
  enum class Kind : uint8_t { kCall, kReturn, kAlloc, kFree };

  uint64_t time;     // nanoseconds since boot
  const char* name;  // of the function; lives as long as the session
  static constexpr uint32_t kMaxValues = 6;
  uint64_t values[kMaxValues];  // arguments; a result; an object and its size
  uint32_t pid;
  uint32_t context;  // a base context; 0: not recorded
  uint16_t cpu;
  Kind kind;
};

class ProbeEvents {
 public:
  static constexpr size_t kMaxPages = 1024;

  // Makes a queue of this many pages of trace memory, or fewer if memory is short; nullptr if there
  // is none. Keeps the first `values` values of each event. No tracer lock held; may sleep.
  static ProbeEvents* create(size_t pages, uint32_t values);
  static void destroy(ProbeEvents* events);

  // False if the event is lost. Any context but NMI. Lock-free.
  bool put(const ProbeEvent& event);
  // True, and counted as lost, if an event would be lost. Called before an event is made: making
  // one is expensive if the functions that do so are probed too. Context as put().
  [[gnu::always_inline]] bool lose_if_full() {
    const uint64_t place = next_.load(std::memory_order_relaxed);
    if (static_cast<int64_t>(slot_at(place).turn.load(std::memory_order_acquire) - place) >= 0)
      return false;
    lost_.fetch_add(1, std::memory_order_relaxed);
    return true;
  }
  // Gets the next event, and how many were lost before it; false if there is none. If only lost
  // events remain, gives their count without an event (`*any` is false). One reader at a time.
  bool take(ProbeEvent* event, bool* any, uint64_t* lost);
  bool empty() const;
  // Calls visit(context) for each event in the queue. Context as take(); concurrent put() is
  // possible.
  template <typename Visit>
  void visit_contexts(Visit visit) {
    for (uint64_t place = first_; place < first_ + capacity_; place++) {
      const Slot& slot = slot_at(place);
      if (slot.turn.load(std::memory_order_acquire) == place + 1) visit(slot.context);
    }
  }
  // Forgets all events. Context as take().
  void clear();
  uint32_t capacity() const { return capacity_; }
  uint32_t values() const { return values_; }

 private:
  struct Slot {
    std::atomic<uint64_t> turn;
    uint64_t time;
    const char* name;
    uint32_t pid, context, lost;
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
  uint64_t first_ = 0;  // position of the oldest event; the reader's
  alignas(64) std::atomic<uint64_t> next_{0};
  std::atomic<uint64_t> lost_{0};
  std::array<uint8_t*, kMaxPages> pages_ = {};
};
