// What a CPU remembers to save itself a look-up, made entry by entry in pages of trace memory that
// are taken as they are wanted. Of one CPU, which alone uses them, with interrupts off.
#pragma once

#include <cstdint>
#include <new>
#include <utility>

#include "lib/units.h"
#include "store/trace_memory.h"

template <typename Entry>
class RecentPages {
 public:
  // A new entry; nullptr if that would take more than `most` pages, or one that cannot be had.
  // After trace_memory_prepare().
  Entry* make(uint64_t most) {
    if (!newest_ || newest_->used == kEntries) {
      if (count_ == most) return nullptr;
      auto* const page = static_cast<Page*>(trace_page_take());
      if (!page) return nullptr;
      *page = {.next = newest_, .used = 0};
      newest_ = page;
      count_++;
    }
    return new (newest_->entries() + newest_->used++) Entry;
  }
  // Calls visit(entry) for each.
  template <typename Visit>
  void each(Visit visit) {
    for (Page* page = newest_; page; page = page->next) {
      for (uint64_t i = 0; i < page->used; i++) visit(page->entries()[i]);
    }
  }
  // Gives all back. No tracer lock held.
  void release() {
    while (newest_) trace_page_free(std::exchange(newest_, newest_->next));
    count_ = 0;
  }

 private:
  // Entries follow.
  struct Page {
    Page* next;
    uint64_t used;
    Entry* entries() { return reinterpret_cast<Entry*>(this + 1); }
  };
  static constexpr uint64_t kEntries = (kPageSize - sizeof(Page)) / sizeof(Entry);
  static_assert(alignof(Entry) <= sizeof(Page));

  Page* newest_ = nullptr;  // only that has room
  uint32_t count_ = 0;
};
