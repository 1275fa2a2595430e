// Sources: kern/src/slab.c kern/src/slab_magazine.c kern/src/slab_depot.c kern/src/slab_layer.c kern/src/arena.cc
// kern/src/arena_segments.cc kern/src/arena_tags.cc kern/src/arena_xalloc.cc kern/src/pages.cc kern/src/kmalloc.cc
// kern/lib/format.cc tests/host/cpus/cpus.cc
// The lower half of a cache: the colours of slabs.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "arena.h"
#include "cpus.h"
#include "pages.h"
#include "slab.h"
#include "slab_trace.h"

void* slab_trace_alloc(kmem_cache*, void* object, size_t, const void*) {
  return object;
}
void slab_trace_free(kmem_cache*, void*) {}
void slab_trace_destroy(kmem_cache*) {}

namespace {

class World : public testing::Environment {
  void SetUp() override { host::memory_start(64 << 20); }
};
const auto* const world = testing::AddGlobalTestEnvironment(new World);

struct kmem_cache_stats stats_of(kmem_cache* cache) {
  struct kmem_cache_stats stats;
  kmem_cache_stats(cache, &stats);
  return stats;
}

// A cache whose slabs are `pages` pages and begin with object after object, `count` of them; the rest is spare, but for
// `own` bytes at the end.
struct Coloured {
  size_t size, align, pages, count, own;
  size_t step;  // of its colours; 0: it has one colour
};

void PrintTo(const Coloured& shape, std::ostream* out) {
  *out << shape.size << " bytes, align " << shape.align;
}

class SlabColour : public testing::TestWithParam<Coloured> {};

TEST_P(SlabColour, SuccessiveSlabsBeginAtSuccessiveMultiplesAndWrapAround) {
  const Coloured shape = GetParam();
  kmem_cache* const cache =
      kmem_cache_create("coloured", shape.size, shape.align, KMC_NOMAGAZINE, nullptr, nullptr, nullptr, nullptr);
  const size_t slab_bytes = shape.pages * SLAB_OS_PAGE_SIZE;
  const size_t stride = (shape.size + std::max<size_t>(shape.align, 8) - 1) & -std::max<size_t>(shape.align, 8);
  const size_t spare = slab_bytes - shape.own - shape.count * stride;
  const size_t colours = shape.step ? spare / shape.step + 1 : 1;
  ASSERT_GE(colours, shape.step ? 2u : 1u) << "the test's own arithmetic";

  std::vector<char*> objects;
  for (size_t slab = 0; slab < 2 * colours + 1; slab++) {
    // Each slab is filled before the next is made.
    std::vector<char*> mine;
    for (size_t i = 0; i < shape.count; i++) mine.push_back(static_cast<char*>(kmem_cache_alloc(cache, KM_ATOMIC)));
    ASSERT_EQ(stats_of(cache).slabs, slab + 1);
    std::sort(mine.begin(), mine.end());
    for (size_t i = 1; i < mine.size(); i++) ASSERT_EQ(mine[i] - mine[i - 1], static_cast<ptrdiff_t>(stride));
    // Slabs of several pages are aligned to a page only; the first page has the first object.
    const size_t colour = reinterpret_cast<uintptr_t>(mine[0]) % SLAB_OS_PAGE_SIZE;
    ASSERT_EQ(colour, slab % colours * shape.step) << "slab " << slab;
    ASSERT_LE(colour + shape.count * stride, slab_bytes - shape.own) << "into the slab structure";
    for (char* object : mine) {
      ASSERT_EQ(reinterpret_cast<uintptr_t>(object) % std::max<size_t>(shape.align, 8), 0u);
      ASSERT_EQ(kmem_cache_of(object), cache);
      memset(object, 0xff, shape.size);  // would break the structure if it lay there
    }
    ASSERT_EQ(kmem_cache_verify(cache), nullptr);
    objects.insert(objects.end(), mine.begin(), mine.end());
  }
  for (char* object : objects) kmem_cache_free(cache, object);
  ASSERT_EQ(kmem_cache_verify(cache), nullptr);
  EXPECT_EQ(stats_of(cache).objects_out, 0u);
  kmem_cache_destroy(cache);
}

// sizeof(struct kmem_slab) is 56.
INSTANTIATE_TEST_SUITE_P(All, SlabColour,
                         testing::Values(Coloured{512, 0, 1, 7, 56, 64}, Coloured{400, 0, 1, 10, 56, 0},
                                         Coloured{320, 128, 1, 10, 56, 128}, Coloured{64, 64, 1, 63, 56, 0},
                                         Coloured{1000, 0, 1, 4, 0, 64}, Coloured{700, 256, 1, 5, 0, 256},
                                         Coloured{1500, 128, 2, 5, 0, 128}, Coloured{2048, 0, 2, 4, 0, 0}),
                         [](const auto& info) {
                           return std::to_string(info.param.size) + "_" + std::to_string(info.param.align);
                         });

TEST(SlabLayer, ObjectsOfQuantumCachesAreWholeQuanta) {
  // Three pages each, in slabs of thirty-two: two pages are spare.
  std::vector<void*> all;
  for (int i = 0; i < 40; i++) {
    void* const pages = arena_alloc(page_arena, 3 * SLAB_OS_PAGE_SIZE, KM_ATOMIC);
    ASSERT_EQ(reinterpret_cast<uintptr_t>(pages) % SLAB_OS_PAGE_SIZE, 0u);
    all.push_back(pages);
  }
  for (void* pages : all) arena_free(page_arena, pages, 3 * SLAB_OS_PAGE_SIZE);
}

}  // namespace
