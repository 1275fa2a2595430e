// Reference counting: an object that derives from RefCounted<T> lives until its last Ref is gone.
//
// Each CPU counts the references taken and put of each kind. While a kind is traced, each taken
// reference gets a number, and the tracer keeps a record with the taker's stack under this number.
// The number stays with the reference: a move carries it along, release() gives it to the next
// holder, and the end of the reference drops the record.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "core/cpu.h"
#include "core/ref_kind.h"

struct trace_table;

// A class of references, as the tracer sees it.
struct RefClass {
  const char* name;  // "ref." and the name of its objects: their cache's name, if they have a cache
  int flags;         // a set of KMC_TRACED and KMC_EVER_TRACED
  trace_table* trace;
};
extern RefClass ref_classes[kRefKinds];
inline RefClass& ref_class(RefKind kind) {
  return ref_classes[static_cast<unsigned>(kind)];
}
// Returns the class with this index, from 0 on; nullptr after the last.
RefClass* ref_class_at(unsigned index);
RefClass* ref_class_find(const char* name);  // nullptr if there is none
RefKind ref_kind_of(const RefClass& of);
// Sums over all CPUs; exact while no reference of the kind is taken or put.
struct RefTotals {
  uint64_t taken, put;
};
RefTotals ref_totals(RefKind kind);

// The tracer's hooks, called from the inline functions below. ref_trace_take records a new
// reference to `object`, with the call stack. Returns the record's number; 0 if the kind is not
// traced any more. Any context but NMI.
uint64_t ref_trace_take(RefKind kind, const void* object);
// Drops the record with this number, which is not 0.
void ref_trace_put(RefKind kind, uint64_t number);

// ref_count_taken() counts a reference as taken, ref_count_put() counts a reference as put. Each
// function costs one instruction, and a branch on the sign of the count.
template <RefKind kind>
[[gnu::always_inline]] inline uint64_t ref_count_taken(const void* object) {
  constexpr size_t counts = offsetof(Cpu, refs) + static_cast<size_t>(kind) * sizeof(RefCounts);
  asm goto("incq %%gs:%c0; js %l[traced]" ::"i"(counts + offsetof(RefCounts, taken))
           : "cc"
           : traced);
  return 0;
traced:
  return ref_trace_take(kind, object);
}
template <RefKind kind>
[[gnu::always_inline]] inline void ref_count_put(const uint64_t& number) {
  constexpr size_t counts = offsetof(Cpu, refs) + static_cast<size_t>(kind) * sizeof(RefCounts);
  asm goto("incq %%gs:%c0; js %l[traced]" ::"i"(counts + offsetof(RefCounts, put)) : "cc" : traced);
  return;
traced:
  if (number != 0) ref_trace_put(kind, number);
}

template <typename T>
class Ref;

// T supplies `static constexpr RefKind kRefKind` and `static void destroy(T*)`. destroy() is called
// once, when the count reaches zero, in the context of the last holder.
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

  std::atomic<uint32_t> count_{1};  // Ref::first() takes the first reference
};

// A reference as plain data, for a holder that cannot have a Ref as a member. It has no destructor:
// the holder must turn it into a Ref again with Ref::adopt().
template <typename T>
struct HeldRef {
  T* object = nullptr;
  uint64_t number = 0;  // number of the reference's record; 0: no record

  explicit operator bool() const { return object != nullptr; }
};

template <typename T>
class Ref {
 public:
  constexpr Ref() = default;
  [[gnu::always_inline]] explicit Ref(T* object) : object_(object), number_(take(object)) {}
  [[gnu::always_inline]] Ref(const Ref& other) : Ref(other.object_) {}
  Ref(Ref&& other) noexcept
      : object_(std::exchange(other.object_, nullptr)), number_(other.number_) {}
  Ref& operator=(Ref other) noexcept {
    std::swap(object_, other.object_);
    std::swap(number_, other.number_);
    return *this;
  }
  ~Ref() {
    if (!object_) return;
    ref_count_put<T::kRefKind>(number_);
    object_->unref();
  }

  // Returns the first reference to a new object, whose count is already 1.
  [[gnu::always_inline]] static Ref first(T* object) {
    Ref ref;
    ref.object_ = object;
    ref.number_ = ref_count_taken<T::kRefKind>(object);
    return ref;
  }
  // Takes a reference for a caller that found the object, but has no reference. Returns an empty
  // Ref if the object's last reference is gone. The memory of the object must not have been freed
  // yet.
  [[gnu::always_inline]] static Ref try_take(T& object) {
    return object.try_ref() ? first(&object) : Ref();
  }
  // Turns a reference that release() has given to the caller into a Ref again.
  static Ref adopt(HeldRef<T> held) {
    Ref ref;
    ref.object_ = held.object;
    ref.number_ = held.number;
    return ref;
  }
  // Gives the reference to the caller, who must adopt() it.
  HeldRef<T> release() { return {std::exchange(object_, nullptr), number_}; }
  void reset() { *this = Ref(); }

  T* get() const { return object_; }
  T* operator->() const { return object_; }
  T& operator*() const { return *object_; }
  explicit operator bool() const { return object_ != nullptr; }
  bool operator==(const Ref& other) const { return object_ == other.object_; }

 private:
  [[gnu::always_inline]] static uint64_t take(T* object) {
    if (!object) return 0;
    object->ref();
    return ref_count_taken<T::kRefKind>(object);
  }

  T* object_ = nullptr;
  uint64_t number_ = 0;  // number of the reference's record; 0: no record
};
