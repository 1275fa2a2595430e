// A set of numbered items, which are found by key. Dumps use the items to add up records.
//
// The set is a hash table with linear probing over an array of items. At first it uses the memory
// that use() sets. When this is full, the set moves to larger memory. When there is no larger
// memory, the set is full: it still finds items, but adds none.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <new>
#include <span>
#include <utility>

#include "intern/page_buffer.h"

// An Item has a type Key and a constructor from a Key. item.key() returns the item's key.
// item.is(key) is true if `key` is the item's key. The static function hash(key) returns a hash, of
// which the set uses the highest bits.
template <typename Item>
class DumpSet {
 public:
  using Key = typename Item::Key;
  static constexpr uint32_t kNone = UINT32_MAX;

  DumpSet() = default;
  DumpSet(const DumpSet&) = delete;
  DumpSet& operator=(const DumpSet&) = delete;

  // Sets the memory with which the set begins, aligned to pages. Called once, before all other
  // functions.
  void use(std::span<std::byte> memory) {
    const size_t guess = memory.size() / (sizeof(Item) + 2 * sizeof(uint32_t));
    slots_ = slots_for(static_cast<uint32_t>(guess));
    index_ = reinterpret_cast<uint32_t*>(memory.data());
    items_ = reinterpret_cast<Item*>(memory.data() + slots_ * sizeof(uint32_t));
    const size_t room = (memory.size() - slots_ * sizeof(uint32_t)) / sizeof(Item);
    capacity_ = static_cast<uint32_t>(std::min<size_t>(room, slots_ / 5 * 4));
    clear();
  }
  void clear() {
    size_ = 0;
    full_ = false;
    reindex();
  }

  uint32_t size() const { return size_; }
  Item& operator[](uint32_t number) { return items_[number]; }
  const Item& operator[](uint32_t number) const { return items_[number]; }
  std::span<Item> items() { return {items_, size_}; }
  std::span<const Item> items() const { return {items_, size_}; }

  // The number of the item with this key; kNone if there is none.
  uint32_t find(const Key& key) const {
    const uint32_t found = *slot_of(key);
    return found == 0 ? kNone : found - 1;
  }
  // The number of the item with this key. If there is no such item, adds one; kNone if the set is
  // full.
  uint32_t find_or_add(const Key& key) {
    uint32_t* slot = slot_of(key);
    if (*slot != 0) return *slot - 1;
    if (size_ == capacity_) {
      if (!grow()) return kNone;
      slot = slot_of(key);
    }
    new (&items_[size_]) Item(key);
    *slot = ++size_;
    return size_ - 1;
  }

  // Sorts the items, which changes their numbers. Call reindex() before the next find().
  template <typename Before>
  void sort(Before before) {
    std::sort(items_, items_ + size_, before);
  }
  void reindex() {
    std::fill_n(index_, slots_, 0);
    for (uint32_t i = 0; i < size_; i++) *slot_of_new(items_[i].key()) = i + 1;
  }

 private:
  // The number of slots for `items` items: a power of two. At least a fifth of them stays free.
  static uint32_t slots_for(uint32_t items) { return std::bit_ceil(items + items / 4 + 1); }

  uint32_t* slot_of(const Key& key) const {
    uint32_t i = first_slot(key);
    while (index_[i] != 0 && !items_[index_[i] - 1].is(key)) i = (i + 1) & (slots_ - 1);
    return &index_[i];
  }
  uint32_t* slot_of_new(const Key& key) const {
    uint32_t i = first_slot(key);
    while (index_[i] != 0) i = (i + 1) & (slots_ - 1);
    return &index_[i];
  }
  uint32_t first_slot(const Key& key) const {
    return static_cast<uint32_t>(Item::hash(key) >> (64 - std::countr_zero(slots_)));
  }

  // Moves the set to twice the memory. False if there is no memory; the set then stays full, so
  // that it does not try again for every record.
  bool grow() {
    if (full_) return false;
    full_ = true;
    PageBuffer<Item> items;
    PageBuffer<uint32_t> index;
    const uint32_t slots = slots_for(2 * capacity_);
    if (!items.reserve(2 * size_t{capacity_}) || !index.reserve(slots)) return false;
    std::copy_n(items_, size_, items.data());
    own_items_ = std::move(items);
    own_index_ = std::move(index);
    items_ = own_items_.data();
    index_ = own_index_.data();
    capacity_ *= 2;
    slots_ = slots;
    reindex();
    full_ = false;
    return true;
  }

  Item* items_ = nullptr;
  uint32_t* index_ = nullptr;  // hash table: item number + 1; 0: free slot
  uint32_t size_ = 0, capacity_ = 0, slots_ = 0;
  bool full_ = false;
  PageBuffer<Item> own_items_;
  PageBuffer<uint32_t> own_index_;
};
