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
    if (!current_ || current_->used == kEntries) {
      Page*& next = current_ ? current_->next : first_;
      if (!next && !add(next, most)) return nullptr;
      current_ = next;
      current_->used = 0;
    }
    return new (current_->entries() + current_->used++) Entry;
  }
  // Calls visit(entry) for each.
  template <typename Visit>
  void each(Visit visit) {
    for (Page* page = current_ ? first_ : nullptr; page; page = page->next) {
      for (uint64_t i = 0; i < page->used; i++) visit(page->entries()[i]);
      if (page == current_) return;
    }
  }
  // There are no entries any more. The pages stay, for others.
  void clear() { current_ = nullptr; }
  // Gives all back. No tracer lock held.
  void release() {
    clear();
    while (first_) trace_page_free(std::exchange(first_, first_->next));
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

  bool add(Page*& next, uint64_t most) {
    void* const page = count_ < most ? trace_page_take() : nullptr;
    if (!page) return false;
    next = new (page) Page{.next = nullptr, .used = 0};
    count_++;
    return true;
  }

  Page* first_ = nullptr;
  Page* current_ = nullptr;  // the last with entries, which alone has room; those behind have none
  uint32_t count_ = 0;
};
