// An array that grows at its end, in single pages of untraced memory (trace_copy_alloc). Only the
// list of its pages may need more than a page of contiguous memory, so the array can grow when
// memory is fragmented. Items never move. May sleep.
#pragma once

#include <compare>
#include <cstddef>
#include <iterator>

#include "intern/page_buffer.h"

template <typename T>
class PageArray {
 public:
  PageArray() = default;
  PageArray(const PageArray&) = delete;
  PageArray& operator=(const PageArray&) = delete;
  ~PageArray() { shrink(0); }

  size_t size() const { return size_; }
  T& operator[](size_t index) { return pages_[index / kItems][index % kItems]; }
  const T& operator[](size_t index) const { return pages_[index / kItems][index % kItems]; }

  // Appends an item. ENOMEM changes nothing.
  Result<void> push(const T& item) {
    if (size_ == pages_.size() * kItems) TRY(add_page());
    (*this)[size_++] = item;
    return {};
  }
  // Keeps the first `size` items, and frees the pages that have none of them.
  void shrink(size_t size) {
    size_ = size;
    while (pages_.size() > (size + kItems - 1) / kItems) {
      trace_copy_free(pages_[pages_.size() - 1], kPageSize);
      pages_.shrink(pages_.size() - 1);
    }
  }

  // A random-access iterator, as algorithms of the standard library need it.
  class Iterator {
   public:
    using iterator_category = std::random_access_iterator_tag;
    using value_type = T;
    using difference_type = ptrdiff_t;
    using pointer = T*;
    using reference = T&;

    Iterator() = default;
    Iterator(PageArray* array, difference_type index) : array_(array), index_(index) {}
    T& operator*() const { return (*array_)[static_cast<size_t>(index_)]; }
    T* operator->() const { return &**this; }
    T& operator[](difference_type by) const { return *(*this + by); }
    Iterator& operator+=(difference_type by) {
      index_ += by;
      return *this;
    }
    Iterator& operator-=(difference_type by) { return *this += -by; }
    Iterator& operator++() { return *this += 1; }
    Iterator& operator--() { return *this += -1; }
    Iterator operator++(int) { return {array_, index_++}; }
    Iterator operator--(int) { return {array_, index_--}; }
    friend Iterator operator+(Iterator at, difference_type by) { return at += by; }
    friend Iterator operator+(difference_type by, Iterator at) { return at += by; }
    friend Iterator operator-(Iterator at, difference_type by) { return at -= by; }
    friend difference_type operator-(const Iterator& a, const Iterator& b) {
      return a.index_ - b.index_;
    }
    friend bool operator==(const Iterator& a, const Iterator& b) { return a.index_ == b.index_; }
    friend auto operator<=>(const Iterator& a, const Iterator& b) { return a.index_ <=> b.index_; }

   private:
    PageArray* array_ = nullptr;
    difference_type index_ = 0;
  };
  Iterator begin() { return {this, 0}; }
  Iterator end() { return {this, static_cast<ptrdiff_t>(size_)}; }

 private:
  static constexpr size_t kItems = kPageSize / sizeof(T);

  Result<void> add_page() {
    void* const page = trace_copy_alloc(kPageSize);
    if (!page) return Errno::ENOMEM;
    const Result<void> added = pages_.push(static_cast<T*>(page));
    if (!added) trace_copy_free(page, kPageSize);
    return added;
  }

  PageVector<T*> pages_;
  size_t size_ = 0;
};
