// KernelAddressSanitizer (Serebryany et al., "AddressSanitizer: A Fast Address Sanity Checker",
// USENIX ATC 2012). The compiler (-fsanitize=kernel-address) makes code call a function of this
// file before each load and store. The function checks that the access is allowed.
//
// Shadow. One byte of shadow describes eight bytes of the direct map. So the shadow, which is made
// at boot, takes an eighth of memory. The value 0 means that all eight bytes are allowed; a value n
// from 1 to 7 means that the first n bytes are allowed. From 0x81 on no byte is allowed, and the
// value is the reason (enum kasan_why). Accesses outside of the direct map (stacks, the image's
// data, user space, devices) and accesses before kasan_init() are not checked.
//
// Marking. slab_magazine.c marks an object when a caller gets or frees it: an allocation allows the
// requested bytes, and a free forbids the whole object. So objects in magazines are forbidden. The
// bytes of an allocated object beyond the requested bytes are forbidden, too. A new slab is
// forbidden as a whole (slab_layer.c, slab_check.c), so the bytes between its objects stay
// forbidden. arena.cc allows and forbids memory from arenas. Arena memory that has never been
// allocated and freed is allowed.
//
// A use after free is found only until the object is allocated again. To delay the reuse, an
// allocation does not simply take the object that was freed last: the number of allocations selects
// an object of the magazine (choose_object() in slab_magazine.c).
//
// Some code is exempt (kern.mk, KASAN_EXEMPT): this file; the allocator, because its links and
// structures lie in forbidden memory; and code that reads any memory, such as the search for
// unreachable objects, the walk over stacks and the report of a panic. The memory functions of
// lib/string.cc and the copies from and to user memory are not instrumented either; they call the
// checks of this file explicitly (lib/sanitize.h).
#ifdef CONFIG_KASAN

#include "kasan.h"

#include "arch/x86_64/paging.h"
#include "core/boot.h"
#include "core/log.h"
#include "core/probe_guard.h"
#include "core/sanitizer.h"
#include "core/symbols.h"
#include "lib/format.h"
#include "lib/string.h"
#include "lib/units.h"
#include "slab.h"

namespace {

constexpr unsigned kShift = 3;
constexpr uint64_t kGranule = 1 << kShift;

constexpr uint64_t kWord = kGranule << kShift;  // bytes described by a word of shadow

constinit uint8_t* shadow = nullptr;
constinit uint64_t covered = 0;  // bytes of the direct map, from its start, that have a shadow

// The part of [address, address + size) that lies in the direct map, as offsets from its start.
struct Offsets {
  uint64_t start, end;
};
[[gnu::always_inline]] inline Offsets offsets(uint64_t address, size_t size) {
  const uint64_t start = address - kDirectMapBase;
  if (start >= covered) return {0, 0};
  return {start, size < covered - start ? start + size : covered};
}

[[gnu::always_inline]] inline uint64_t shadow_word(uint64_t offset) {
  uint64_t word;
  __builtin_memcpy(&word, shadow + (offset >> kShift), sizeof(word));
  return word;
}

// The first forbidden offset in the range; `at.end` if there is none.
[[gnu::always_inline]] inline uint64_t first_forbidden(Offsets at) {
  for (uint64_t offset = at.start; offset < at.end;) {
    if (at.end - offset >= kWord && offset % kWord == 0 && shadow_word(offset) == 0) {
      offset += kWord;
      continue;
    }
    const uint8_t value = shadow[offset >> kShift];
    const uint64_t granule = offset & ~(kGranule - 1), next = granule + kGranule;
    if (value != 0) [[unlikely]] {
      const uint64_t allowed_end = granule + (value < kGranule ? value : 0);
      if (at.end > allowed_end) return offset > allowed_end ? offset : allowed_end;
    }
    offset = next;
  }
  return at.end;
}

const char* name_of(uint8_t value) {
  switch (value) {
    case KASAN_NO_OBJECT:
      return "no allocated object is there";
    case KASAN_FREED:
      return "the object is free";
    case KASAN_FREED_PAGES:
      return "the pages are free";
    default:
      return "past the end of the requested bytes";
  }
}

}  // namespace

// tools/stele/ksyms.py refers to this function by its name.
extern "C" [[gnu::cold, gnu::noinline]] void kasan_report(uint64_t forbidden, uint64_t address,
                                                          size_t size, const char* what,
                                                          const void* caller) {
  const uint8_t value = shadow[forbidden >> kShift];
  char where[160];
  symbol_format(where, sizeof(where), reinterpret_cast<uint64_t>(caller));
  if (!sanitizer_expected()) {
    covered = 0;  // no checks while the report is made
    kmem_log_object(reinterpret_cast<const void*>(address));
  }
  sanitizer_report("KernelAddressSanitizer: %s of %zu bytes at 0x%lx: %s; by %s", what, size,
                   address, name_of(value), where);
}

namespace {

[[gnu::always_inline]] inline void check(uint64_t address, size_t size, const char* what,
                                         const void* caller) {
  const Offsets at = offsets(address, size);
  const uint64_t forbidden = first_forbidden(at);
  if (forbidden != at.end) [[unlikely]]
    kasan_report(forbidden, address, size, what, caller);
}

}  // namespace

void kasan_init() {
  const uint64_t bytes = boot_info().highest.value;
  const size_t size = align_up(bytes >> kShift, kPageSize);
  shadow = static_cast<uint8_t*>(early_alloc(size, kPageSize));
  memset(shadow, 0, size);
  covered = bytes;
}

void kasan_forbid(const void* address, size_t size, kasan_why why) {
  const Offsets at = offsets(reinterpret_cast<uint64_t>(address), size);
  if (at.start == at.end) return;
  memset(shadow + (at.start >> kShift), why, (align_up(at.end, kGranule) - at.start) >> kShift);
}

void kasan_allow(const void* address, size_t size) {
  const Offsets at = offsets(reinterpret_cast<uint64_t>(address), size);
  if (at.start == at.end) return;
  memset(shadow + (at.start >> kShift), 0, (at.end - at.start) >> kShift);
  if (at.end % kGranule != 0) shadow[at.end >> kShift] = static_cast<uint8_t>(at.end % kGranule);
}

bool kasan_may_free(const void* address) {
  const Offsets at = offsets(reinterpret_cast<uint64_t>(address), 1);
  const uint64_t forbidden = first_forbidden(at);
  if (forbidden == at.end) return true;
  kasan_report(forbidden, reinterpret_cast<uint64_t>(address), 0, "free",
               __builtin_return_address(0));
  return false;
}

// The compiler's instrumentation calls these functions. They cannot be probed: the handler of a
// probe is instrumented, so it would call the probed function again.
#define CHECK(name, size, what)                                                \
  extern "C" NOT_PROBED void __asan_##name##size##_noabort(uint64_t address) { \
    check(address, size, what, __builtin_return_address(0));                   \
  }
#define CHECK_RANGE(name, what)                                                         \
  extern "C" NOT_PROBED void __asan_##name##N_noabort(uint64_t address, size_t bytes) { \
    check(address, bytes, what, __builtin_return_address(0));                           \
  }
CHECK(load, 1, "read")
CHECK(load, 2, "read")
CHECK(load, 4, "read")
CHECK(load, 8, "read")
CHECK(load, 16, "read")
CHECK(store, 1, "write")
CHECK(store, 2, "write")
CHECK(store, 4, "write")
CHECK(store, 8, "write")
CHECK(store, 16, "write")
CHECK_RANGE(load, "read")
CHECK_RANGE(store, "write")
extern "C" NOT_PROBED void __asan_handle_no_return() {}

#endif  // CONFIG_KASAN
