// For tests of checked caches (docs/memory.md, "Checking"): memory, trace hooks that record which
// objects are allocated, checks of the log, and caches of several shapes.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <ostream>
#include <string>

#include "arena.h"
#include "cpus.h"
#include "slab.h"
#include "slab_os.h"

namespace host {

// The trace hooks make a record of each allocated object, and remove the record when the object is
// freed. `twice` counts allocations of objects that already have a record. `unmatched` counts frees
// of objects without a record. records() returns the number of records.
extern std::atomic<uint64_t> twice, unmatched;
size_t records();

struct kmem_cache_stats stats_of(kmem_cache* cache);
// Calls kmem_cache_verify(), and checks that the cache has `live` allocated objects, and that all
// other objects that its slabs have given out are in magazines. No CPU may be using the cache.
testing::AssertionResult sound(kmem_cache* cache, uint64_t live);
// Checks that the text logged since the last call of said() or said_nothing() has all of `parts`,
// in this order.
testing::AssertionResult said(std::initializer_list<const char*> parts);
// Checks that nothing was logged since the last call of said() or said_nothing().
testing::AssertionResult said_nothing();

struct Shape {
  size_t size, align;
  int flags;
  bool constructed;
};

inline void PrintTo(const Shape& shape, std::ostream* out) {
  *out << shape.size << " bytes, align " << shape.align << ", flags " << shape.flags;
}

// The constructor that make_cache() sets fills an object with 0x5a. `constructed` is the number of
// objects that are constructed now; `broken` counts objects in which the destructor found other
// bytes.
extern std::atomic<int64_t> constructed, broken;

kmem_cache* make_cache(const Shape& shape, arena* source = nullptr);

// Each TEST_P(Check, …) runs once for each shape in slab_check_world.cc.
class Check : public testing::TestWithParam<Shape> {
 protected:
  void SetUp() override {
    kmem_reap();
    host::take_log();
    constructed = broken = 0;
    cache_ = make_cache(GetParam());
    ASSERT_NE(cache_, nullptr);
    kmem_cache_check_start(cache_);
  }
  void TearDown() override {
    kmem_cache_destroy(cache_);
    EXPECT_EQ(constructed, 0);
  }

  unsigned char* alloc(unsigned place) {
    host_cpu.place = place;
    return static_cast<unsigned char*>(kmem_cache_alloc(cache_, KM_ATOMIC));
  }
  void free(void* object, unsigned place) {
    host_cpu.place = place;
    kmem_cache_free(cache_, object);
  }
  // Checks that exactly one object is quarantined, and that 300 allocations do not return `object`.
  testing::AssertionResult quarantined(const void* object);

  kmem_cache* cache_ = nullptr;
};

}  // namespace host
