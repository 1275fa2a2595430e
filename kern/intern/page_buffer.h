// Untraced memory of any size, and an array in such memory that grows at its end. The memory comes
// from the tracer's arena, but does not count against the tracer's limit. May sleep.
#pragma once

#include <cstddef>
#include <utility>

#include "intern/trace_memory.h"
#include "lib/result.h"
#include "lib/string.h"
#include "lib/units.h"

template <typename T>
class PageBuffer {
 public:
  PageBuffer() = default;
  PageBuffer(PageBuffer&& other) noexcept
      : items_(std::exchange(other.items_, nullptr)),
        capacity_(std::exchange(other.capacity_, 0)) {}
  PageBuffer& operator=(PageBuffer&& other) noexcept {
    std::swap(items_, other.items_);
    std::swap(capacity_, other.capacity_);
    return *this;
  }
  ~PageBuffer() {
    if (items_) trace_copy_free(items_, bytes());
  }

  // Makes room for at least `count` items. Keeps the first `kept` items; the others are undefined.
  // ENOMEM changes nothing.
  Result<void> reserve(size_t count, size_t kept = 0) {
    if (count <= capacity_) return {};
    PageBuffer larger;
    larger.capacity_ = align_up(count * sizeof(T), kPageSize) / sizeof(T);
    larger.items_ = static_cast<T*>(trace_copy_alloc(larger.bytes()));
    if (!larger.items_) return Errno::ENOMEM;
    if (kept > 0) memcpy(larger.items_, items_, kept * sizeof(T));
    *this = std::move(larger);
    return {};
  }

  size_t capacity() const { return capacity_; }
  T* data() { return items_; }  // nullptr before the first reserve()
  const T* data() const { return items_; }
  T& operator[](size_t index) { return items_[index]; }
  const T& operator[](size_t index) const { return items_[index]; }

 private:
  size_t bytes() const { return align_up(capacity_ * sizeof(T), kPageSize); }

  T* items_ = nullptr;
  size_t capacity_ = 0;
};

// A growing array. Items are contiguous, and move when the array grows. The items of a PageArray
// (page_array.h) do not move.
template <typename T>
class PageVector {
 public:
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T* data() { return items_.data(); }  // nullptr before the first push()
  const T* data() const { return items_.data(); }
  T& operator[](size_t index) { return items_[index]; }
  const T& operator[](size_t index) const { return items_[index]; }

  // Appends an item. ENOMEM changes nothing.
  Result<void> push(const T& item) {
    if (size_ == items_.capacity()) TRY(items_.reserve(2 * size_ + 1, size_));
    items_[size_++] = item;
    return {};
  }
  // Keeps the first `size` items.
  void shrink(size_t size) { size_ = size; }

 private:
  PageBuffer<T> items_;
  size_t size_ = 0;
};
