// The events of a session, from whoever is hit to the one who reads: a bounded queue.
//
// A ring of slots, each with a number that says whose turn it is (D. Vyukov's bounded queue): at
// place p of all that ever come, the slot's number is p when it can be filled, p + 1 when it can be
// read, and p + slots when it was read. Who has an event takes the next place by compare-and-swap
// and then fills the slot; no lock is taken, so that it may be done with any locks held and
// interrupts off. When the slot of the next place has not been read yet, the event is lost and
// counted; the next one that is not takes the number along, and so the reader finds it where the
// events were.
//
// Slots are as long as the queue's events need: the six arguments of a call are more than an object
// and its size.
//
// One reads at a time. Nobody is woken: that takes locks that whoever is hit may hold. The reader
// looks again in short steps.
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
  uint32_t context;  // a base, 0: not recorded
  uint16_t cpu;
  Kind kind;
};

class ProbeEvents {
 public:
  static constexpr size_t kMaxPages = 1024;

  // A queue of as many pages of trace memory, or of fewer if there are not so many; nullptr without
  // any. Of each event the first `values` values are kept. No tracer lock held; may sleep.
  static ProbeEvents* create(size_t pages, uint32_t values);
  static void destroy(ProbeEvents* events);

  // False if it is lost. Any context but NMI. Lock-free.
  bool put(const ProbeEvent& event);
  // True if an event would be lost, which is counted then: asked before one is made, which costs
  // much when all functions are probed, those that make it too. As put().
  [[gnu::always_inline]] bool lose_if_full() {
    const uint64_t place = next_.load(std::memory_order_relaxed);
    if (static_cast<int64_t>(slot_at(place).turn.load(std::memory_order_acquire) - place) >= 0)
      return false;
    lost_.fetch_add(1, std::memory_order_relaxed);
    return true;
  }
  // The next one, and how many were lost before it; false if there is none. When only some that
  // were lost are left, these are given without an event (`*any` is false). By one at a time.
  bool take(ProbeEvent* event, bool* any, uint64_t* lost);
  bool empty() const;
  // Calls visit(context) for each event that is there. As take(); events may be put meanwhile.
  template <typename Visit>
  void visit_contexts(Visit visit) {
    for (uint64_t place = first_; place < first_ + capacity_; place++) {
      const Slot& slot = slot_at(place);
      if (slot.turn.load(std::memory_order_acquire) == place + 1) visit(slot.context);
    }
  }
  // Forgets all. As take().
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
  uint64_t first_ = 0;  // place of the oldest; the reader's
  alignas(64) std::atomic<uint64_t> next_{0};
  std::atomic<uint64_t> lost_{0};
  std::array<uint8_t*, kMaxPages> pages_ = {};
};
