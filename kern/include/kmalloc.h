/* Memory of any size. For C and C++. The size-class caches kmalloc_16 … kmalloc_8192 (with steps
 * between the powers of two) and bytes_16 … bytes_8192 (powers of two) serve most requests; the
 * page arena serves larger ones. */
#pragma once

#include "slab.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Makes the caches. Called once, by memory_init(). */
void kmalloc_init(void);

/* Allocates `size` bytes. The memory is aligned to a page if `size` is 4096 or more, otherwise to
 * 16 bytes. NULL when out of memory or size is 0. `flags`: KM_*. With KM_ATOMIC: any context but
 * NMI. */
void* kmalloc(size_t size, int flags);
/* kmalloc() for memory that holds no pointers, but names, text or data of users. The search for
 * unreachable objects does not look for pointers in this memory. */
void* kmalloc_bytes(size_t size, int flags);
/* Frees memory that kmalloc or kmalloc_bytes returned, or NULL. */
void kfree(void* memory);
/* Returns the number of usable bytes: at least the requested size. For an object in a checked slab
 * (slab.h) it is exactly the requested size. */
size_t kmalloc_usable_size(const void* memory);

#ifdef __cplusplus
}

#include <new>
#include <utility>

#include "lib/result.h"

// A cache of objects of type T: the C++ interface of kmem_cache. Objects are constructed by T's
// constructor at each allocation.
template <typename T>
class ObjectCache {
 public:
  // Makes the cache. Called once, at boot; panics if the cache cannot be made. `size` is the size
  // of an object in bytes: more than sizeof(T) if further data follows each object. The further
  // data holds no pointers (kmem_cache_set_payload).
  void init(const char* name, size_t size = sizeof(T), size_t alignment = alignof(T)) {
    cache_ = kmem_cache_create(name, size, alignment, 0, nullptr, nullptr, nullptr, nullptr);
    if (!cache_) panic_no_cache(name);
    kmem_cache_set_payload(cache_, size - sizeof(T));
  }
  // Allocates and constructs an object. ENOMEM when out of memory. May sleep with KM_SLEEP.
  template <typename... Arguments>
  __attribute__((always_inline)) Result<T*> make(int flags, Arguments&&... arguments) {
    void* memory = kmem_cache_alloc(cache_, flags);
    if (!memory) return Errno::ENOMEM;
    return new (memory) T(std::forward<Arguments>(arguments)...);
  }
  void destroy(T* object) {
    object->~T();
    kmem_cache_free(cache_, object);
  }
  kmem_cache* cache() const { return cache_; }

 private:
  [[noreturn]] static void panic_no_cache(const char* name);
  kmem_cache* cache_ = nullptr;
};

[[noreturn]] void panic_no_cache(const char* name);
template <typename T>
void ObjectCache<T>::panic_no_cache(const char* name) {
  ::panic_no_cache(name);
}

// Memory for one call of a function: an object of type T, which is too large for a kernel stack.
// The destructor destroys and frees the object.
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
#endif
