// Memory for one call of a function, for objects that are too large for a kernel stack.
#pragma once

#include <new>
#include <utility>

#include "kmalloc.h"
#include "lib/result.h"

// Holds an object of type T from kmalloc. The destructor destroys and frees the object.
template <typename T>
class Scratch {
 public:
  // Constructs the object. ENOMEM. May sleep.
  static Result<Scratch> make() {
    void* const memory = kmalloc(sizeof(T), KM_SLEEP);
    if (!memory) return Errno::ENOMEM;
    return Scratch(new (memory) T);
  }
  Scratch(Scratch&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() {
    if (!object_) return;
    object_->~T();
    kfree(object_);
  }

  T& operator*() const { return *object_; }
  T* operator->() const { return object_; }

 private:
  explicit Scratch(T* object) : object_(object) {}
  T* object_;
};
