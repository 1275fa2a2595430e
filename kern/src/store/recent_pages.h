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
  // There are no entries any more. Pages that had some stay, for others; of those that have had
  // none since the last clear() a few are given back. In the context of trace_page_free().
  void clear() {
    give_back(current_ ? current_->next : first_, kFew);
    current_ = nullptr;
  }
  // Gives all back. The same context.
  void release() {
    give_back(first_, count_);
    current_ = nullptr;
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
  static constexpr uint32_t kFew = 4;  // interrupts may be off

  bool add(Page*& next, uint64_t most) {
    void* const page = count_ < most ? trace_page_take() : nullptr;
    if (!page) return false;
    next = new (page) Page{.next = nullptr, .used = 0};
    count_++;
    return true;
  }

  void give_back(Page*& from, uint32_t most) {
    for (; from && most > 0; most--, count_--) trace_page_free(std::exchange(from, from->next));
  }

  Page* first_ = nullptr;
  Page* current_ = nullptr;  // the last with entries, which alone has room; those behind have none
  uint32_t count_ = 0;
};
