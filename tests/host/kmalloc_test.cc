#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string_view>
#include <vector>

#include "kmalloc.h"
#include "pages.h"
#include "slab.h"
#include "slab_world.h"

namespace {

using host::expect_sound;
using host::Held;
using host::hold;
using host::kMemory;
using host::take_any;

TEST(Kmalloc, AnySizeAgreesWithAModel) {
  std::mt19937_64 random(5);
  std::vector<Held> held;
  for (int i = 0; i < 30'000; i++) {
    if (random() % 600 >= held.size()) {
      const size_t size = 1 + random() % (size_t{1} << (random() % 16));
      const bool bytes = random() % 2 != 0;
      void* const memory = (bytes ? kmalloc_bytes : kmalloc)(size, KM_ATOMIC);
      ASSERT_NE(memory, nullptr);
      if (const kmem_cache* const cache = kmem_cache_of(memory)) {
        ASSERT_EQ(kmem_cache_payload(cache), bytes ? kmem_cache_object_size(cache) : 0);
      } else {
        ASSERT_EQ((page_of(memory)->large_pages & kPagesOfBytes) != 0, bytes);
      }
      ASSERT_EQ(reinterpret_cast<uintptr_t>(memory) % (size >= 4096 ? 4096 : 16), 0u) << size;
      ASSERT_GE(kmalloc_usable_size(memory), size);
      ASSERT_LE(kmalloc_usable_size(memory), std::max<size_t>(16, size * 2));
      held.push_back(hold(memory, size, random()));
    } else {
      const Held object = take_any(held, random);
      ASSERT_TRUE(object.intact());
      kfree(object.memory);
    }
  }
  for (const Held& object : held) {
    ASSERT_TRUE(object.intact());
    kfree(object.memory);
  }
  for (kmem_cache* cache = kmem_cache_next(nullptr); cache; cache = kmem_cache_next(cache)) {
    const std::string_view name = kmem_cache_name(cache);
    if (name.starts_with("kmalloc_") || name.starts_with("bytes_")) expect_sound(cache, 0);
  }
}

TEST(Kmalloc, EdgesOfItsDomain) {
  for (const auto allocate : {kmalloc, kmalloc_bytes}) {
    EXPECT_EQ(allocate(0, KM_ATOMIC), nullptr);
    EXPECT_EQ(allocate(SIZE_MAX, KM_ATOMIC), nullptr);
  }
  EXPECT_EQ(kmalloc(kMemory * 2, KM_ATOMIC), nullptr);
  kfree(nullptr);
  for (size_t size : {8192, 8193, 100'000}) {
    auto* const memory = static_cast<unsigned char*>(kmalloc(size, KM_ZERO));
    ASSERT_TRUE(std::all_of(memory, memory + size, [](unsigned char byte) { return byte == 0; }));
    memset(memory, 1, size);
    kfree(memory);
  }
}

TEST(Kmalloc, UntilMemoryIsGone) {
  std::vector<void*> all;
  while (void* const memory = kmalloc(3'000 + all.size() % 40'000, KM_ATOMIC))
    all.push_back(memory);
  EXPECT_GT(all.size() * 3'000, kMemory / 20);
  for (void* memory : all) kfree(memory);
  // Most of the freed memory is now in magazines. An atomic allocation does not empty the
  // magazines; an allocation that may sleep does. The free memory is still fragmented then, because
  // pages of boundary tags lie between the free pages. So the test requests only 1/64 of the
  // memory.
  EXPECT_EQ(kmalloc(kMemory / 64, KM_ATOMIC), nullptr);
  void* const again = kmalloc(kMemory / 64, KM_SLEEP);
  EXPECT_NE(again, nullptr);
  kfree(again);
}

}  // namespace
