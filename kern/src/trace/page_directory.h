// Pages of trace memory by number: a radix tree of two levels that only grows. Readers need no lock. Its root is part of it,
// so that a small limit is not used up by what leads to the pages.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "lib/units.h"
#include "trace_memory.h"

class PageDirectory {
 public:
  static constexpr uint32_t kFanout = kPageSize / sizeof(void*);
  static constexpr uint32_t kMaxPages = kFanout * kFanout;

  uint32_t size() const { return size_.load(std::memory_order_acquire); }
  // Page number `index` < size().
  void* operator[](uint32_t index) const { return root_[index / kFanout][index % kFanout]; }

  // Takes a page and appends it; nullptr when there is none. Two pages of trace memory at most. Calls are serialised by
  // the owner.
  void* append() {
    const uint32_t index = size_.load(std::memory_order_relaxed);
    if (index == kMaxPages) return nullptr;
    if (index % kFanout == 0 && index == leaves_ * kFanout) {
      auto** leaf = static_cast<void**>(trace_page_take());
      if (!leaf) return nullptr;
      root_[leaves_++] = leaf;
    }
    void* page = trace_page_take();
    if (!page) return nullptr;
    root_[index / kFanout][index % kFanout] = page;
    size_.store(index + 1, std::memory_order_release);
    return page;
  }

  // Frees all pages. No readers; no tracer lock held.
  void clear() {
    for (uint32_t i = 0; i < size(); i++) trace_page_free((*this)[i]);
    for (uint32_t i = 0; i < leaves_; i++) trace_page_free(root_[i]);
    leaves_ = 0;
    size_.store(0, std::memory_order_relaxed);
  }

 private:
  void** root_[kFanout] = {};
  uint32_t leaves_ = 0;
  std::atomic<uint32_t> size_{0};
};
