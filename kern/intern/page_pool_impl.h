// A pool of free pages, from which hooks take pages without using the arena. The pool is lock-free:
// a CPU that is stopped in the middle of an operation does not block others. (The host of a virtual
// machine may stop a CPU for milliseconds.)
//
// The pool has a slot for each page, full or empty, and a count of unclaimed pages. put() fills a
// slot and then increments the count. take() decrements the count, which claims one page, and then
// searches for a full slot. So at every moment
//   full slots >= count + claims of take() calls that are still searching
// and each claim finds a page. If one pass over the slots finds none, other CPUs have taken and put
// pages meanwhile, which is progress. Operations on the count are sequentially consistent. Suppose
// that one CPU puts a page and then tests whether pages are still wanted, while another CPU
// declares that none are wanted and then takes all pages. Then at least one of the two CPUs sees
// what the other has done. Pages are not linked, so there is no ABA problem.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

template <size_t kSlots>
class PagePool {
 public:
  // Takes a page; nullptr if there is none. Any context. Bound: one pass over the slots, and
  // another for each page that other CPUs take and put meanwhile. put() and take() both begin at
  // the lowest slot, so that usually one of the first slots has a page.
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

  // Puts a page into the pool. False if no empty slot was found. Any context. Bound: one pass over
  // the slots.
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

  // The number of unclaimed pages.
  uint32_t count() const { return count_.load(std::memory_order_relaxed); }

 private:
  std::array<std::atomic<void*>, kSlots> slots_ = {};
  std::atomic<uint32_t> count_{0};
};
