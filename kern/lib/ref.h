// Reference counting: an object that derives from RefCounted<T> lives until its last Ref is gone.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

template <typename T>
class Ref;

// T supplies `static void destroy(T*)`, called once when the count reaches zero, in the context of
// the last holder.
template <typename T>
class RefCounted {
 public:
  uint32_t ref_count() const { return count_.load(std::memory_order_relaxed); }

 protected:
  RefCounted() = default;

 private:
  friend class Ref<T>;

  void ref() { count_.fetch_add(1, std::memory_order_relaxed); }
  bool try_ref() {
    uint32_t count = count_.load(std::memory_order_relaxed);
    while (count != 0 && !count_.compare_exchange_weak(count, count + 1, std::memory_order_relaxed))
      continue;
    return count != 0;
  }
  void unref() {
    if (count_.fetch_sub(1, std::memory_order_acq_rel) == 1) T::destroy(static_cast<T*>(this));
  }

  std::atomic<uint32_t> count_{1};  // Ref::first()
};

// A reference outside a Ref, for a holder that cannot have one as a member. Plain data; it has to
// go back into a Ref.
template <typename T>
struct HeldRef {
  T* object = nullptr;

  explicit operator bool() const { return object != nullptr; }
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

  // The first reference to an object that has just been made.
  static Ref first(T* object) {
    Ref ref;
    ref.object_ = object;
    return ref;
  }
  // A reference to an object that the caller found without having one, and that has not been freed
  // yet; empty if its last reference is gone.
  static Ref try_take(T& object) { return object.try_ref() ? first(&object) : Ref(); }
  // Continues a reference that has been released.
  static Ref adopt(HeldRef<T> held) {
    Ref ref;
    ref.object_ = held.object;
    return ref;
  }
  // The caller's to adopt again.
  HeldRef<T> release() { return {std::exchange(object_, nullptr)}; }
  void reset() { *this = Ref(); }

  T* get() const { return object_; }
  T* operator->() const { return object_; }
  T& operator*() const { return *object_; }
  explicit operator bool() const { return object_ != nullptr; }
  bool operator==(const Ref& other) const { return object_ == other.object_; }

 private:
  T* object_ = nullptr;
};
