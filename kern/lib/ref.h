// Reference counting: an object that derives from RefCounted<T> lives until its last Ref is gone.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

// T supplies `static void destroy(T*)`, called once when the count reaches zero, in the context of
// the last holder.
template <typename T>
class RefCounted {
 public:
  void ref() { count_.fetch_add(1, std::memory_order_relaxed); }
  // For who found the object otherwise than by a reference, and knows that it is not freed yet:
  // false if the last one is gone.
  bool try_ref() {
    uint32_t count = count_.load(std::memory_order_relaxed);
    while (count != 0 && !count_.compare_exchange_weak(count, count + 1, std::memory_order_relaxed))
      continue;
    return count != 0;
  }
  void unref() {
    if (count_.fetch_sub(1, std::memory_order_acq_rel) == 1) T::destroy(static_cast<T*>(this));
  }
  uint32_t ref_count() const { return count_.load(std::memory_order_relaxed); }

 protected:
  RefCounted() = default;

 private:
  std::atomic<uint32_t> count_{1};  // who creates it holds the first reference: see Ref::adopt
};

template <typename T>
class Ref {
 public:
  constexpr Ref() = default;
  explicit Ref(T* object) : object_(object) {
    if (object_) object_->ref();
  }
  Ref(const Ref& other) : Ref(other.object_) {}
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Ref& operator=(Ref other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Ref() {
    if (object_) object_->unref();
  }

  // Takes over a reference that the caller holds.
  static Ref adopt(T* object) {
    Ref ref;
    ref.object_ = object;
    return ref;
  }
  // Gives the reference to the caller, who must unref it.
  T* release() { return std::exchange(object_, nullptr); }
  void reset() { *this = Ref(); }

  T* get() const { return object_; }
  T* operator->() const { return object_; }
  T& operator*() const { return *object_; }
  explicit operator bool() const { return object_ != nullptr; }
  bool operator==(const Ref& other) const { return object_ == other.object_; }

 private:
  T* object_ = nullptr;
};
