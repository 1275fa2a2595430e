// Shared by the tests of checking: memory, hooks that know which objects have a record, the log,
// and checked caches of all shapes.
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

// Errors seen by the hooks: a second record of an object, a free without one; and the number of
// objects with a record.
extern std::atomic<uint64_t> twice, unmatched;
size_t records();

struct kmem_cache_stats stats_of(kmem_cache* cache);
// Everything that must be true of a cache at rest with `live` objects.
testing::AssertionResult sound(kmem_cache* cache, uint64_t live);
// Does the log since the last look have all of `parts`, in this order? Is it empty?
testing::AssertionResult said(std::initializer_list<const char*> parts);
testing::AssertionResult said_nothing();

struct Shape {
  size_t size, align;
  int flags;
  bool constructed;
};

inline void PrintTo(const Shape& shape, std::ostream* out) {
  *out << shape.size << " bytes, align " << shape.align << ", flags " << shape.flags;
}

// Objects are full of 0x5a between construction and destruction: the number of constructed ones,
// and of those found changed at their destruction.
extern std::atomic<int64_t> constructed, broken;

kmem_cache* make_cache(const Shape& shape, arena* source = nullptr);

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
  // Nobody gets `object` any more, however many are allocated.
  testing::AssertionResult quarantined(const void* object);

  kmem_cache* cache_ = nullptr;
};

inline const auto shapes = testing::Values(
    Shape{24, 0, 0, false}, Shape{64, 64, 0, false}, Shape{100, 16, 0, true},
    Shape{512, 0, 0, false}, Shape{1024, 0, 0, false}, Shape{1500, 128, 0, true},
    Shape{4096, 4096, 0, false}, Shape{5000, 0, 0, true}, Shape{64, 0, KMC_NOMAGAZINE, false});
inline std::string name_of(const testing::TestParamInfo<Shape>& info) {
  return std::to_string(info.param.size) + "_" + std::to_string(info.param.align) + "_" +
         std::to_string(info.param.flags);
}

}  // namespace host
