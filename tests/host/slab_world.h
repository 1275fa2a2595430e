// For tests of the allocator: memory, trace hooks that record which objects are allocated, checks
// of a cache, and objects with known contents.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <ostream>
#include <random>
#include <utility>
#include <vector>

#include "slab.h"

namespace host {

inline constexpr uint64_t kMemory = 64 << 20;

// Returns the flag that the trace hooks have for an object: 1 if the object has a record.
std::atomic<uint8_t>& record_of(const void* object);
// The trace hooks count: records made, records removed, frees of objects without a record, and
// destroyed caches. `last_requested` and `last_frame` are the requested bytes and the frame pointer
// that the hook got at the last allocation.
extern std::atomic<uint64_t> recorded, dropped, unmatched, destroyed;
extern std::atomic<size_t> last_requested;
extern std::atomic<const void*> last_frame;

struct kmem_cache_stats stats_of(kmem_cache* cache);
// Calls kmem_cache_verify(), and checks the counts of a cache that has `live` allocated objects. No
// CPU may be using the cache.
void expect_sound(kmem_cache* cache, uint64_t live);

// An object filled with bytes computed from its address and a salt.
struct Held {
  unsigned char* memory;
  size_t size;
  unsigned char salt;

  void fill() {
    for (size_t i = 0; i < size; i++)
      memory[i] = static_cast<unsigned char>(reinterpret_cast<uintptr_t>(memory + i) * 31 + salt);
  }
  bool intact() const {
    for (size_t i = 0; i < size; i++)
      if (memory[i] !=
          static_cast<unsigned char>(reinterpret_cast<uintptr_t>(memory + i) * 31 + salt))
        return false;
    return true;
  }
};

inline Held hold(void* memory, size_t size, unsigned salt) {
  Held held{static_cast<unsigned char*>(memory), size, static_cast<unsigned char>(salt)};
  held.fill();
  return held;
}

template <typename T>
T take_any(std::vector<T>& from, std::mt19937_64& random) {
  std::swap(from[random() % from.size()], from.back());
  T taken = from.back();
  from.pop_back();
  return taken;
}

struct Shape {
  size_t size, align;
  int flags;
};

// Prints a shape in the name of a failing test.
inline void PrintTo(const Shape& shape, std::ostream* out) {
  *out << shape.size << " bytes, align " << shape.align << ", flags " << shape.flags;
}

}  // namespace host
