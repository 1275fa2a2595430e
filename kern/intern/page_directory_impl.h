// Pages of trace memory by number: a radix tree of two levels that only grows. Reading and growing
// take no lock. The root is a member of the object, not a page of trace memory, so that the tree
// does not use up a small limit of trace memory.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>

#include "intern/trace_memory.h"
#include "lib/units.h"

class PageDirectory {
 public:
  static constexpr uint32_t kFanout = kPageSize / sizeof(void*);
  static constexpr uint32_t kMaxPages = kFanout * kFanout;

  // Returns page number `index`, which obtain() has returned before.
  void* operator[](uint32_t index) const {
    const Leaf* leaf = root_[index / kFanout].load(std::memory_order_acquire);
    return leaf->pages[index % kFanout].load(std::memory_order_acquire);
  }

  // Returns page number `index`; nullptr if obtain() has not returned this page. Any number is
  // valid.
  void* find(uint32_t index) const {
    if (index >= kMaxPages) return nullptr;
    const Leaf* leaf = root_[index / kFanout].load(std::memory_order_acquire);
    return leaf ? leaf->pages[index % kFanout].load(std::memory_order_acquire) : nullptr;
  }

  // Returns page number `index`. If the page does not exist, adds a page with undefined contents;
  // nullptr when out of memory. If two CPUs add the same page, the later one returns its page to
  // the pool. Takes at most two pages of trace memory. Lock-free; any context but NMI, after
  // trace_memory_prepare(). The caller holds no tracer lock, because of trace_page_return(). A lock
  // that serialises all calls is allowed, because then no page is returned. Bound: the zeroing of a
  // leaf.
  void* obtain(uint32_t index) {
    if (index >= kMaxPages) return nullptr;
    Leaf* leaf = publish(root_[index / kFanout], [](void* page) { return new (page) Leaf; });
    return leaf ? publish(leaf->pages[index % kFanout], [](void* page) { return page; }) : nullptr;
  }

  // Frees all pages. Nobody uses the directory; no tracer lock held.
  void clear() {
    for (std::atomic<Leaf*>& place : root_) {
      Leaf* leaf = place.exchange(nullptr, std::memory_order_relaxed);
      if (!leaf) continue;
      for (std::atomic<void*>& page : leaf->pages) {
        if (void* memory = page.load(std::memory_order_relaxed)) trace_page_free(memory);
      }
      trace_page_free(leaf);
    }
  }

 private:
  struct Leaf {
    std::atomic<void*> pages[kFanout] = {};
  };
  static_assert(sizeof(Leaf) == kPageSize);

  // Returns the pointer in `place`. If `place` is empty, first takes a page and stores make(page)
  // there; nullptr when out of memory.
  template <typename T, typename Make>
  static T* publish(std::atomic<T*>& place, Make make) {
    T* there = place.load(std::memory_order_acquire);
    if (there) return there;
    void* page = trace_page_take();
    if (!page) return place.load(std::memory_order_acquire);  // another CPU may have stored a page
    T* mine = make(page);
    if (place.compare_exchange_strong(there, mine, std::memory_order_acq_rel,
                                      std::memory_order_acquire))
      return mine;
    trace_page_return(page);
    return there;
  }

  std::atomic<Leaf*> root_[kFanout] = {};
};
