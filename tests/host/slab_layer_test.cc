// The slab layer of a cache, which is below its magazines: the colours of slabs, and the hash of
// bufctls (linear_hash.h).
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <random>
#include <unordered_map>
#include <vector>

#include "arena.h"
#include "cpus.h"
#include "pages.h"
#include "slab.h"
#include "slab_os.h"
#include "src/linear_hash.h"

namespace {

struct kmem_cache_stats stats_of(kmem_cache* cache) {
  struct kmem_cache_stats stats;
  kmem_cache_stats(cache, &stats);
  return stats;
}

// A cache for objects of `size` bytes, with slabs of `pages` pages. A slab has `count` objects,
// then spare bytes, and at its end `own` bytes of the allocator. The colour shifts the objects into
// the spare bytes.
struct Coloured {
  size_t size, align, pages, count, own;
  size_t step;  // bytes between two colours; 0: there is only one colour
};

void PrintTo(const Coloured& shape, std::ostream* out) {
  *out << shape.size << " bytes, align " << shape.align;
}

class SlabColour : public testing::TestWithParam<Coloured> {};

TEST_P(SlabColour, SuccessiveSlabsBeginAtSuccessiveMultiplesAndWrapAround) {
  const Coloured shape = GetParam();
  kmem_cache* const cache = kmem_cache_create("coloured", shape.size, shape.align, KMC_NOMAGAZINE,
                                              nullptr, nullptr, nullptr, nullptr);
  const size_t slab_bytes = shape.pages * SLAB_OS_PAGE_SIZE;
  const size_t stride =
      (shape.size + std::max<size_t>(shape.align, 8) - 1) & -std::max<size_t>(shape.align, 8);
  const size_t spare = slab_bytes - shape.own - shape.count * stride;
  const size_t colours = shape.step ? spare / shape.step + 1 : 1;
  ASSERT_GE(colours, shape.step ? 2u : 1u) << "the test's own arithmetic";

  std::vector<char*> objects;
  for (size_t slab = 0; slab < 2 * colours + 1; slab++) {
    // Fill each slab before the next one is made.
    std::vector<char*> mine;
    for (size_t i = 0; i < shape.count; i++)
      mine.push_back(static_cast<char*>(kmem_cache_alloc(cache, KM_ATOMIC)));
    ASSERT_EQ(stats_of(cache).slabs, slab + 1);
    std::sort(mine.begin(), mine.end());
    for (size_t i = 1; i < mine.size(); i++)
      ASSERT_EQ(mine[i] - mine[i - 1], static_cast<ptrdiff_t>(stride));
    // Slabs are aligned to pages, and the first object lies in the first page of its slab. So the
    // offset of this object in its page is the slab's colour.
    const size_t colour = reinterpret_cast<uintptr_t>(mine[0]) % SLAB_OS_PAGE_SIZE;
    ASSERT_EQ(colour, slab % colours * shape.step) << "slab " << slab;
    ASSERT_LE(colour + shape.count * stride, slab_bytes - shape.own) << "into the slab structure";
    for (char* object : mine) {
      ASSERT_EQ(reinterpret_cast<uintptr_t>(object) % std::max<size_t>(shape.align, 8), 0u);
      ASSERT_EQ(kmem_cache_of(object), cache);
      memset(object, 0xff, shape.size);  // damages the slab structure if the object overlaps it
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
INSTANTIATE_TEST_SUITE_P(
    All, SlabColour,
    testing::Values(Coloured{512, 0, 1, 7, 56, 64}, Coloured{400, 0, 1, 10, 56, 0},
                    Coloured{320, 128, 1, 10, 56, 128}, Coloured{64, 64, 1, 63, 56, 0},
                    Coloured{1000, 0, 1, 4, 0, 64}, Coloured{700, 256, 1, 5, 0, 256},
                    Coloured{1500, 128, 2, 5, 0, 128}, Coloured{2048, 0, 2, 4, 0, 0}),
    [](const auto& info) {
      return std::to_string(info.param.size) + "_" + std::to_string(info.param.align);
    });

TEST(SlabLayer, ObjectsOfQuantumCachesAreWholeQuanta) {
  // The quantum cache for three pages has slabs of 32 pages, with ten objects and two spare pages.
  // The colours of these slabs must not misalign the objects.
  std::vector<void*> all;
  for (int i = 0; i < 40; i++) {
    void* const pages = arena_alloc(page_arena, 3 * SLAB_OS_PAGE_SIZE, KM_ATOMIC);
    ASSERT_EQ(reinterpret_cast<uintptr_t>(pages) % SLAB_OS_PAGE_SIZE, 0u);
    all.push_back(pages);
  }
  for (void* pages : all) arena_free(page_arena, pages, 3 * SLAB_OS_PAGE_SIZE);
}

// ---- The hash, which grows and shrinks one bucket at a time.

struct Item {
  uint64_t before;
  uintptr_t key;
  Item* next;
};

// A hash, a model of the hash's contents, and the memory that the hash was given. grow() gives the
// hash memory if the hash wants some; shrink() takes the hash's spare memory back.
class Hash {
 public:
  Hash() { linear_hash_init(&hash_, offsetof(Item, next), offsetof(Item, key)); }
  linear_hash& get() { return hash_; }

  void insert(uintptr_t key) {
    Item* const item = &items_.emplace_back(Item{0xb4, key, nullptr});
    const uint64_t buckets = hash_.buckets;
    linear_hash_insert(&hash_, item);
    ASSERT_LE(hash_.buckets, buckets + 1) << "more than one split";
    model_[key] = item;
  }
  void remove(uintptr_t key) {
    const uint64_t buckets = hash_.buckets;
    ASSERT_EQ(linear_hash_remove(&hash_, key), model_[key]);
    ASSERT_GE(hash_.buckets + 1, buckets) << "more than one merge";
    ASSERT_EQ(linear_hash_remove(&hash_, key), nullptr);
    model_.erase(key);
  }
  void grow() {
    if (const size_t bytes = linear_hash_wanted(&hash_)) {
      segments_.push_back(std::make_unique<char[]>(bytes));
      memset(segments_.back().get(), 0xa5, bytes);
      ASSERT_TRUE(linear_hash_give(&hash_, segments_.back().get(), bytes));
      ASSERT_FALSE(linear_hash_give(&hash_, segments_.back().get(), bytes)) << "given twice";
      given_ += bytes;
    }
  }
  void shrink() {
    size_t bytes;
    while (void* const memory = linear_hash_take(&hash_, &bytes)) {
      ASSERT_EQ(memory, segments_.back().get());
      segments_.pop_back();
      given_ -= bytes;
    }
    ASSERT_FALSE(linear_hash_spare(&hash_));
  }
  void expect_sound() {
    ASSERT_TRUE(linear_hash_sound(&hash_));
    ASSERT_EQ(hash_.items, model_.size());
    ASSERT_LE(hash_.buckets, std::max<uint64_t>(LINEAR_HASH_FIRST, hash_.items + 1));
  }
  size_t given() const { return given_; }
  const std::unordered_map<uintptr_t, Item*>& model() const { return model_; }
  // Returns the length of the longest chain.
  uint64_t longest() {
    uint64_t longest = 0;
    for (uint64_t bucket = 0; bucket < hash_.buckets; bucket++) {
      uint64_t length = 0;
      for (void* item = *linear_hash_place(&hash_, bucket); item;
           item = *linear_hash_link(&hash_, item))
        length++;
      longest = std::max(longest, length);
    }
    return longest;
  }

 private:
  linear_hash hash_;
  std::deque<Item> items_;
  std::unordered_map<uintptr_t, Item*> model_;
  std::vector<std::unique_ptr<char[]>> segments_;
  size_t given_ = 0;
};

TEST(LinearHash, GrowsAndShrinksAndFindsAll) {
  Hash hash;
  constexpr uintptr_t kItems = 100'000;
  for (uintptr_t i = 0; i < kItems; i++) {
    ASSERT_NO_FATAL_FAILURE(hash.insert(0xffff'8000'0000'0000 + i * 4096));
    ASSERT_NO_FATAL_FAILURE(hash.grow());
    if (i % 4'999 == 0) {
      ASSERT_NO_FATAL_FAILURE(hash.expect_sound());
    }
  }
  EXPECT_GE(hash.get().buckets * 2 + 2, kItems);
  EXPECT_LE(hash.longest(), 16u);
  EXPECT_LE(hash.given(), kItems * 8) << "memory is at most a word for each item";
  for (uintptr_t i = 0; i < kItems; i++) {
    ASSERT_NO_FATAL_FAILURE(hash.remove(0xffff'8000'0000'0000 + i * 4096));
    ASSERT_NO_FATAL_FAILURE(hash.shrink());
    if (i % 4'999 == 0) {
      ASSERT_NO_FATAL_FAILURE(hash.expect_sound());
    }
  }
  EXPECT_EQ(hash.get().buckets, uint64_t{LINEAR_HASH_FIRST});
  EXPECT_EQ(hash.given(), 0u);
}

TEST(LinearHash, EveryStrideSpreads) {
  for (unsigned shift = 0; shift < 48; shift++) {
    Hash hash;
    for (uintptr_t i = 0; i < 4'000; i++) {
      hash.insert(i << shift);
      hash.grow();
    }
    ASSERT_LE(hash.longest(), 12u) << "multiples of 2^" << shift;
  }
}

TEST(LinearHash, WithoutMemoryItGoesOnAndCatchesUp) {
  std::mt19937_64 random(3);
  Hash hash;
  std::vector<uintptr_t> keys;
  for (int phase = 0; phase < 40; phase++) {
    const bool memory = phase % 3 != 0, filling = phase % 8 < 5;
    for (int i = 0; i < 4'000; i++) {
      if (keys.empty() || random() % 10 < (filling ? 8 : 2)) {
        keys.push_back(random());
        ASSERT_NO_FATAL_FAILURE(hash.insert(keys.back()));
      } else {
        std::swap(keys[random() % keys.size()], keys.back());
        ASSERT_NO_FATAL_FAILURE(hash.remove(keys.back()));
        keys.pop_back();
      }
      if (memory) {
        ASSERT_NO_FATAL_FAILURE(hash.grow());
        ASSERT_NO_FATAL_FAILURE(hash.shrink());
      }
    }
    ASSERT_NO_FATAL_FAILURE(hash.expect_sound());
  }
  while (hash.get().items > 2 * hash.get().buckets + 2) {
    hash.insert(random());
    hash.grow();
  }
  EXPECT_LE(hash.longest(), 16u);
}

TEST(SlabLayer, BufctlHashNeedsNoMemoryToGoOn) {
  kmem_cache* const cache = kmem_cache_create("hashed", 64, 8, KMC_NOTOUCH | KMC_NOMAGAZINE,
                                              nullptr, nullptr, nullptr, nullptr);
  struct arena_stats before, after;
  arena_stats(base_arena, &before);
  std::vector<void*> objects;
  for (int i = 0; i < 30'000; i++) {
    host::fail_pages(i % 2 ? 100 : 0);
    if (void* const object = kmem_cache_alloc(cache, KM_ATOMIC)) objects.push_back(object);
    if (i % 1'000 == 0) {
      ASSERT_EQ(kmem_cache_verify(cache), nullptr);
    }
  }
  host::fail_pages(0);
  const struct kmem_cache_stats full = stats_of(cache);
  EXPECT_EQ(full.hash_items, objects.size());
  EXPECT_GE(2 * full.hash_buckets + 2, full.hash_items);
  for (void* object : objects) kmem_cache_free(cache, object);
  EXPECT_EQ(stats_of(cache).hash_items, 0u);
  EXPECT_EQ(stats_of(cache).hash_buckets, uint64_t{LINEAR_HASH_FIRST});
  kmem_cache_destroy(cache);
  kmem_reap();
  arena_stats(base_arena, &after);
  EXPECT_LE(after.allocated_bytes, before.allocated_bytes);
}

}  // namespace
