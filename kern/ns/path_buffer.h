// Memory for a path, which is too large for a kernel stack.
#pragma once

#include <cstddef>

#include "lib/result.h"
#include "slab.h"

inline constexpr size_t kMaxPath = 1024;
inline constexpr size_t kMaxName = 255;

// Holds room for a path and for a name, from the cache `path`. The cache is not traced: every call
// with a path uses it, and these buffers never outlive the call. When all memory is used, a reserve
// of a few buffers remains. So a shell can still write to a file whose device frees memory.
class PathBuffer {
 public:
  PathBuffer() = default;
  PathBuffer(const PathBuffer&) = delete;
  PathBuffer& operator=(const PathBuffer&) = delete;
  ~PathBuffer() {
    if (!memory_) return;
    if (is_of_reserve(memory_)) [[unlikely]]
      give_back();
    else
      kmem_cache_free(cache, memory_);
  }
  // Allocates the memory, unless the buffer has it. The contents are not set. ENOMEM: the reserve
  // is used, too. May sleep.
  Result<void> fill() {
    if (!memory_) memory_ = static_cast<Memory*>(kmem_cache_alloc(cache, KM_SLEEP));
    return memory_ ? Result<void>() : take_of_reserve();
  }

  // Only after fill().
  char (&path() const)[kMaxPath] { return memory_->path; }
  char (&name() const)[kMaxName + 1] { return memory_->name; }

 private:
  struct Memory {
    char path[kMaxPath];
    char name[kMaxName + 1];
  };
  static constexpr size_t kReserve = 16;  // a call holds at most a few buffers
  static Memory reserve[kReserve];
  static kmem_cache* cache;
  static bool is_of_reserve(const Memory* memory) {
    return memory >= reserve && memory < reserve + kReserve;
  }
  Result<void> take_of_reserve();
  void give_back();
  Memory* memory_ = nullptr;
  friend void path_buffers_init();
};

// Makes the cache. Called once, at boot.
void path_buffers_init();
