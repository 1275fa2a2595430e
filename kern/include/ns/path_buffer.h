// Memory for a path, which is too large for a kernel stack.
#pragma once

#include <cstddef>

#include "lib/result.h"

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
    if (memory_) give_back(memory_);
  }
  // Allocates the memory, unless the buffer has it. The contents are not set. ENOMEM: the reserve
  // is used, too. May sleep.
  Result<void> fill();

  // Only after fill().
  char (&path() const)[kMaxPath] { return memory_->path; }
  char (&name() const)[kMaxName + 1] { return memory_->name; }

 private:
  struct Memory {
    char path[kMaxPath];
    char name[kMaxName + 1];
  };
  static Memory reserve[];
  static void give_back(Memory* memory);
  Memory* memory_ = nullptr;
  friend void path_buffers_init();
};

// Makes the cache. Called once, at boot.
void path_buffers_init();
