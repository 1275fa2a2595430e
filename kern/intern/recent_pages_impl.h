// Storage for the entries of a CPU's table of recent stacks or callers: pages of trace memory that
// are taken on demand. Only this CPU uses them, with interrupts and probes off.
#pragma once

#include <cstdint>
#include <new>
#include <utility>

#include "intern/trace_memory.h"
#include "lib/units.h"

template <typename Entry>
class RecentPages {
 public:
  // Makes a new entry; nullptr if this needs more than `most` pages, or a page that is not
  // available. Call after trace_memory_prepare().
  Entry* make(uint64_t most) {
    if (!current_ || current_->used == kEntries) {
      Page*& next = current_ ? current_->next : first_;
      if (!next && !add(next, most)) return nullptr;
      current_ = next;
      current_->used = 0;
    }
    return new (current_->entries() + current_->used++) Entry;
  }
  // Removes all entries and keeps their pages for new entries. Gives back a few of the pages that
  // have had no entry since the last clear(). No lock of a rank below kArenaTags is held.
  void clear() {
    give_back(current_ ? current_->next : first_, kFew);
    current_ = nullptr;
  }
  // Gives all pages back. No lock of a rank below kArenaTags is held.
  void release() {
    give_back(first_, count_);
    current_ = nullptr;
  }

 private:
  // The header of a page; the entries follow.
  struct Page {
    Page* next;
    uint64_t used;  // entries in use
    Entry* entries() { return reinterpret_cast<Entry*>(this + 1); }
  };
  static constexpr uint64_t kEntries = (kPageSize - sizeof(Page)) / sizeof(Entry);
  static_assert(alignof(Entry) <= sizeof(Page));
  static constexpr uint32_t kFew = 4;  // pages; few, since interrupts may be off

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
  Page* current_ = nullptr;  // the last page with entries; earlier ones are full, later ones empty
  uint32_t count_ = 0;
};
