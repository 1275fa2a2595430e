// Tests that the sanitizers report errors and do not report correct code. The tests run only in the
// variant `sanitize`.
#include <array>
#include <climits>
#include <string_view>

#include "arena.h"
#include "core/ktest.h"
#include "core/sanitizer.h"
#include "core/user_memory.h"
#include "kmalloc.h"
#include "lib/optimizer.h"
#include "lib/string.h"
#include "pages.h"
#include "slab.h"

#ifdef CONFIG_KASAN

namespace {

constexpr size_t kSizes[] = {1, 7, 8, 9, 16, 20, 31, 64, 65, 96, 100, 500, 512, 1024, 4000, 4096};

void load(const char* from) {
  static_cast<void>(*const_cast<const volatile char*>(from));
}
void store(char* to) {
  *const_cast<volatile char*>(to) = 'x';
}

// True if there was exactly one report, which contains `what`.
bool found(SanitizerExpected& expected, std::string_view what) {
  return expected.take_count() == 1 &&
         std::string_view(expected.last()).find(what) != std::string_view::npos;
}

constexpr std::string_view kPastEnd = "past the end of the requested bytes",
                           kFree = "the object is free", kFreePages = "the pages are free",
                           kNoObject = "no allocated object is there";

}  // namespace

KTEST(kasan_byte_behind_an_object) {
  for (const size_t size : kSizes) {
    auto* const object = static_cast<char*>(kmalloc(size, KM_SLEEP));
    if (!object) return ktest_fail(__FILE__, __LINE__, "memory");
    SanitizerExpected expected;
    for (size_t i = 0; i < size; i++) store(&object[i]);
    memset(object, 0, size);
    EXPECT(expected.take_count() == 0);
    if (size == 4096) {  // this size class has no gap between its objects
      kfree(object);
      continue;
    }
    load(&object[size]);
    EXPECT(expected.take_count() == 1);
    memset(object, 0, size + 1);
    EXPECT(expected.take_count() == 1);
    memcpy(object, &object[1], size);
    EXPECT(expected.take_count() == 1);
    kfree(object);
  }
}

KTEST(kasan_word_that_begins_inside) {
  auto* const object = static_cast<char*>(kmalloc(100, KM_SLEEP));
  if (!object) return ktest_fail(__FILE__, __LINE__, "memory");
  SanitizerExpected expected;
  static_cast<void>(*reinterpret_cast<volatile uint32_t*>(object + 96));
  EXPECT(expected.take_count() == 0);
  static_cast<void>(*reinterpret_cast<volatile uint64_t*>(object + 96));
  EXPECT(found(expected, kPastEnd));
  kfree(object);
}

KTEST(kasan_byte_before_an_object) {
  auto* const object = static_cast<char*>(kmalloc(64, KM_SLEEP));
  if (!object) return ktest_fail(__FILE__, __LINE__, "memory");
  SanitizerExpected expected;
  load(object - 1);
  EXPECT(expected.take_count() == 1);
  kfree(object);
}

KTEST(kasan_freed_object) {
  for (const size_t size : kSizes) {
    auto* const object = static_cast<char*>(kmalloc(size, KM_SLEEP));
    if (!object) return ktest_fail(__FILE__, __LINE__, "memory");
    kfree(object);
    SanitizerExpected expected;
    load(object);
    EXPECT(found(expected, kFree) || size == 4096);
    load(&object[size - 1]);
    EXPECT(found(expected, kFree) || size == 4096);
  }
}

KTEST(kasan_double_free) {
  auto* const cache = kmem_cache_create("kasan_test", 48, 0, 0, nullptr, nullptr, nullptr, nullptr);
  if (!cache) return ktest_fail(__FILE__, __LINE__, "memory");
  void* const object = kmem_cache_alloc(cache, KM_SLEEP);
  kmem_cache_free(cache, object);
  {
    SanitizerExpected expected;
    kmem_cache_free(cache, object);
    EXPECT(found(expected, kFree));
  }
  struct kmem_cache_stats stats;
  kmem_cache_stats(cache, &stats);
  EXPECT(stats.live == 0 && stats.frees == 1);
  kmem_cache_destroy(cache);
}

KTEST(kasan_object_of_nobody) {
  auto* const cache = kmem_cache_create("kasan_test", 48, 0, 0, nullptr, nullptr, nullptr, nullptr);
  if (!cache) return ktest_fail(__FILE__, __LINE__, "memory");
  auto* const object = static_cast<char*>(kmem_cache_alloc(cache, KM_SLEEP));
  if (object) {
    SanitizerExpected expected;
    load(&object[48 + 16 + 8]);  // an address in the next object
    EXPECT(found(expected, kNoObject));
  }
  kmem_cache_free(cache, object);
  kmem_cache_destroy(cache);
}

KTEST(kasan_freed_pages) {
  Result<PhysAddr> page = page_alloc(KM_SLEEP);
  auto* const large = static_cast<char*>(kmalloc(20'000, KM_SLEEP | KM_ZERO));
  if (!page || !large) return ktest_fail(__FILE__, __LINE__, "memory");
  auto* const memory = reinterpret_cast<char*>(0xffff800000000000 + page->value);
  SanitizerExpected expected;
  store(memory);
  store(&large[19'999]);
  EXPECT(expected.take_count() == 0);
  load(&large[20'000]);
  EXPECT(found(expected, kPastEnd));
  page_free(*page);
  kfree(large);
  load(memory);
  EXPECT(found(expected, kFreePages));
  load(&large[10'000]);
  EXPECT(found(expected, kFreePages));
}

// Idle objects in magazines stay constructed. Only the destructor may access them there.
KTEST(kasan_constructor_and_destructor) {
  static constinit unsigned made = 0, ended = 0;
  made = ended = 0;
  SanitizerExpected expected;
  auto* const cache = kmem_cache_create(
      "kasan_test", 40, 0, 0, nullptr,
      [](void* object, void*, int) {
        memset(object, 1, 40);
        made++;
        return 0;
      },
      [](void* object, void*) { ended += static_cast<char*>(object)[39]; }, nullptr);
  if (!cache) return ktest_fail(__FILE__, __LINE__, "memory");
  for (int round = 0; round < 3; round++) {
    void* const object = kmem_cache_alloc(cache, KM_SLEEP);
    EXPECT(object && static_cast<char*>(object)[39] == 1);
    kmem_cache_free(cache, object);
    if (round == 1) kmem_reap();
  }
  kmem_cache_destroy(cache);
  EXPECT(expected.take_count() == 0);
  EXPECT(made == 2 && ended == 2);
}

KTEST(kasan_copies_from_and_to_programs) {
  auto* const object = static_cast<char*>(kmalloc(30, KM_SLEEP));
  if (!object) return ktest_fail(__FILE__, __LINE__, "memory");
  SanitizerExpected expected;
  // A kernel task has no user memory, so the copies fail; but the kernel's buffer is checked before
  // that.
  static_cast<void>(copy_from_user(object, 0x1000, 30));
  EXPECT(expected.take_count() == 0);
  static_cast<void>(copy_from_user(object, 0x1000, 31));
  EXPECT(found(expected, kPastEnd));
  static_cast<void>(copy_to_user(0x1000, object, 31));
  EXPECT(found(expected, kPastEnd));
  kfree(object);
}

// The allocator delays the reuse of freed objects. Otherwise a use after free would access the next
// owner's object.
KTEST(kasan_does_not_hand_out_at_once) {
  std::array<void*, 16> objects;
  for (void*& object : objects) object = kmalloc(224, KM_SLEEP);
  for (void* object : objects) kfree(object);
  unsigned at_once = 0;
  for (int i = 0; i < 64; i++) {
    void* const object = kmalloc(224, KM_SLEEP);
    kfree(object);
    void* const next = kmalloc(224, KM_SLEEP);
    at_once += next == object;
    kfree(next);
  }
  EXPECT(at_once < 32);
}

#endif

#ifdef CONFIG_UBSAN

namespace {

// Hides a value from the compiler.
template <typename T>
T unknown(T value) {
  hide_value(value);
  return value;
}

bool reported(SanitizerExpected& expected, std::string_view what) {
  const std::string_view text(expected.last());
  return expected.take_count() == 1 && text.find("sanitizer_test.cc:") != std::string_view::npos &&
         text.find(what) != std::string_view::npos;
}

enum class Colour : uint8_t { kRed };

}  // namespace

KTEST(ubsan_overflow) {
  SanitizerExpected expected;
  const int large = unknown(INT_MAX), small = unknown(INT_MIN);
  unknown(large - 1);
  EXPECT(expected.take_count() == 0);
  unknown(large + 1);
  EXPECT(reported(expected, "overflow: 2147483647 + 1 in 'int'"));
  unknown(small - 1);
  EXPECT(reported(expected, "overflow: -2147483648 - 1 in 'int'"));
  unknown(unknown(int64_t{1} << 62) * 2);
  EXPECT(reported(expected, "overflow: 4611686018427387904 * 2 in 'long int'"));
  unknown(-small);
  EXPECT(reported(expected, "overflow: -(-2147483648) in 'int'"));
}

KTEST(ubsan_shifts_and_indices) {
  SanitizerExpected expected;
  static constinit std::array<int, 4> numbers{};
  int plain[4] = {};
  unknown(uint32_t{1} << unknown(31));
  EXPECT(expected.take_count() == 0);
  unknown(uint32_t{1} << unknown(32));
  EXPECT(reported(expected, "shift of 1 by 32 bits in 'unsigned int'"));
  unknown(plain[unknown(3)]);
  EXPECT(expected.take_count() == 0);
  unknown(plain[unknown(4) & 4]);
  EXPECT(expected.take_count() >= 1);
  unknown(numbers[unknown(3)]);
  EXPECT(expected.take_count() == 0);
}

KTEST(ubsan_pointers_and_values) {
  SanitizerExpected expected;
  alignas(8) static constinit char bytes[16] = {};
  static_cast<void>(*reinterpret_cast<volatile uint32_t*>(unknown(bytes + 4)));
  EXPECT(expected.take_count() == 0);
  static_cast<void>(*reinterpret_cast<volatile uint32_t*>(unknown(bytes + 2)));
  EXPECT(reported(expected, "a misaligned address (alignment 4)"));
  bytes[0] = 2;
  unknown(*reinterpret_cast<volatile bool*>(unknown(bytes)));
  EXPECT(reported(expected, "2 is no value of 'bool'"));
}

#endif
