// Free pages between hooks and the arena, without a lock: a CPU that is stopped in the middle of an
// operation (the host of a virtual machine may do that for milliseconds) keeps no other CPU from
// going on.
//
// A slot for each page, empty or not, and a count of pages that nobody has a claim to. put() fills
// a slot and then raises the count; take() lowers the count, which is a claim to one page, and then
// looks for it. So at every moment
//   slots that are full >= count + claims
// and whoever has a claim finds a page: when one pass over the slots finds none, others have taken
// and put meanwhile, and that is progress. Counting is sequentially consistent: of one who puts a
// page and then looks whether it is still wanted, and one who says that none is wanted and then
// takes all, one at least sees the other. There are no links between pages, hence none that could
// be stale (the ABA problem).
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

template <size_t kSlots>
class PagePool {
 public:
  // nullptr if there is none. Any context. Bound: one pass over the slots, another for each page
  // that others take and put meanwhile. Both ends work from the lowest slot, so that mostly one of
  // the first is meant.
  void* take() {
    uint32_t count = count_.load();
    do {
      if (count == 0) return nullptr;
    } while (!count_.compare_exchange_weak(count, count - 1));
    for (;;) {
      for (std::atomic<void*>& slot : slots_) {
        if (!slot.load(std::memory_order_relaxed)) continue;
        if (void* page = slot.exchange(nullptr, std::memory_order_acquire)) return page;
      }
    }
  }

  // False if it may not have room. Any context. Bound: one pass over the slots.
  bool put(void* page) {
    for (std::atomic<void*>& slot : slots_) {
      void* empty = nullptr;
      if (slot.load(std::memory_order_relaxed)) continue;
      if (!slot.compare_exchange_strong(empty, page, std::memory_order_release,
                                        std::memory_order_relaxed))
        continue;
      count_.fetch_add(1);
      return true;
    }
    return false;
  }

  // Pages that nobody has a claim to.
  uint32_t count() const { return count_.load(std::memory_order_relaxed); }

 private:
  std::array<std::atomic<void*>, kSlots> slots_ = {};
  std::atomic<uint32_t> count_{0};
};
