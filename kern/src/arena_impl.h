// Internals shared by arena.cc (operations), arena_segments.cc (segments, free lists, hash),
// arena_tags.cc (the pool of boundary tags), arena_list.cc (the list of arenas), arena_xalloc.cc
// (constraints and policies) and arena_traced.cc (quantum caches of traced arenas). The theory is
// in arena.cc.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "arena.h"
#include "core/spinlock.h"
#include "linear_hash.h"
#include "slab.h"

namespace arena_impl {

enum class SegmentKind : uint8_t { kFree, kAllocated, kSpan, kImportedSpan };

// A boundary tag.
struct Segment {
  uintptr_t start;
  size_t size;
  SegmentKind kind;
  Segment *prev, *next;            // by address, in the arena
  Segment *list_prev, *list_next;  // free list; hash chain and pool use list_next only

  bool is_span() const { return kind == SegmentKind::kSpan || kind == SegmentKind::kImportedSpan; }
};

inline constexpr unsigned kFreeLists = 64;
inline constexpr size_t kQuantumCaches = 16;

// Counts a span in the statistics. For pages of tags, which bypass arena_span_alloc.
void count_span(struct arena& arena, size_t size);

}  // namespace arena_impl

struct arena {
  // Fixed at creation.
  char name[ARENA_NAME_MAX];
  size_t quantum;
  unsigned quantum_shift;
  arena_import import;
  arena_export export_;
  struct arena* source;
  bool passes_on;  // arena_pass_on()
  size_t quantum_cache_max;
  std::array<kmem_cache*, arena_impl::kQuantumCaches> quantum_caches;  // [n] for n + 1 quanta

  // Atomic. The tracer sets the flags; the counts are of spans, from segments or quantum caches.
  uint32_t flags;
  uint32_t zombie;   // destroyed: nobody begins to read its quantum caches any more
  uint32_t lookers;  // readers of quantum caches, with interrupts off
  trace_table* trace;
  uint64_t span_allocations, span_frees, span_bytes;

  // Lock of the list of arenas.
  struct arena* next_arena;
  uint64_t references;  // one for being alive, one for each holder
  bool announced;       // complete and visible in the list; before, it only reserves its name

  alignas(Spinlock) std::array<std::byte, sizeof(Spinlock)> lock_storage;
  Spinlock& lock() { return *reinterpret_cast<Spinlock*>(lock_storage.data()); }

  // Guarded by lock().
  arena_impl::Segment* first;  // lowest tag
  std::array<arena_impl::Segment*, arena_impl::kFreeLists> free_lists;
  uint64_t free_bitmap;
  struct linear_hash hash;  // of the allocated segments, by start; linear_hash_wanted is called
                            // without the lock, too
  bool hash_growing;
  uint64_t total_bytes, allocated_bytes, imported_bytes;
  uint64_t allocations, frees, live, tags;
  std::array<uint64_t, arena_impl::kFreeLists> free_segments;
  uint64_t failures;
  // Next fit: the end of its last allocation, and the tag where the next search starts: a segment
  // of the rotor's span that begins no later than the rotor. nullptr: the first tag.
  uintptr_t rotor;
  arena_impl::Segment* rotor_tag;
};

namespace arena_impl {

inline bool is_cached(const struct arena& arena, size_t size) {
  return size <= arena.quantum_cache_max;
}
inline kmem_cache* quantum_cache(const struct arena& arena, size_t size) {
  return arena.quantum_caches[(size >> arena.quantum_shift) - 1];
}
// Panics on an invalid allocation or free of a quantum cache's object. Without this, which needs
// CONFIG_SLAB_CHECK_CALLS, an invalid free is found only when its magazine is emptied.
void note_cached(const struct arena& arena, const void* address, size_t size, bool out);
// Panics for KM_SLEEP where the caller may not sleep.
void check_sleep(const struct arena& arena, int flags);

// arena_flags() & flag, as one test on memory: for an atomic load the compiler would use a
// register.
[[gnu::always_inline]] inline bool has_flag(const struct arena& arena, uint32_t flag) {
  bool has;
  asm("testl %2, %1" : "=@ccnz"(has) : "m"(arena.flags), "i"(flag));
  return SLAB_OS_FLAG_TESTS && has;
}

// ---- Traced arenas (arena_traced.cc). `whole` is `size` rounded up to whole quanta; the recorded
// stack begins at `frame`.

void* alloc_traced(struct arena& arena, size_t size, size_t whole, int flags, const void* frame);
void free_traced(struct arena& arena, void* address, size_t whole);
// Their general path (arena.cc).
void* alloc_anyhow(struct arena& arena, size_t size, int flags, const void* frame);
void free_anyhow(struct arena& arena, void* address, size_t whole);

// ---- Boundary tags (arena_tags.cc).

// The tags that an operation may need. The destructor returns unused ones to the pool. Any context
// but NMI.
class Tags {
 public:
  Tags() = default;
  Tags(const Tags&) = delete;
  Tags& operator=(const Tags&) = delete;
  ~Tags();
  // False when out of memory. Neither base_arena's lock nor the pool's is held.
  bool reserve(size_t count);
  Segment* make(uintptr_t start, size_t size, SegmentKind kind);
  // Takes back a tag.
  void put(Segment* tag);

 private:
  Segment* pop();

  Segment* tags_ = nullptr;
};

// Fills the pool if an operation would soon have to; true if it did. The same context as reserve().
bool fill_tags_early();
// Adds the first tags to the pool. Once, at boot.
void tags_init();
// Size of the pages that have become tags; they are never given back.
uint64_t tag_bytes();

// ---- Segments of an arena (arena_segments.cc). All with its lock held.

// The free list for segments of `size`, and the first list whose segments all have at least `size`
// bytes (kFreeLists if there is none).
unsigned free_list_of(const struct arena& arena, size_t size);
unsigned sure_list_of(const struct arena& arena, size_t size);
// The first free segment of the lists from `list` on; nullptr if there is none.
Segment* first_free(const struct arena& arena, unsigned list);
// Instant fit: a free segment of at least `size`; nullptr if there is none.
Segment* find_free(const struct arena& arena, size_t size);

// Cuts `offset` bytes off the front of a free segment. Both stay free; the second is returned.
Segment* split_free(struct arena& arena, Segment& segment, size_t offset, Tags& tags);
// Makes the first `size` bytes of a free segment an allocated one.
void allocate_from(struct arena& arena, Segment& segment, size_t size, Tags& tags);
// Enters a span with one free segment, which is returned. The newest span comes first.
Segment* enter_span(struct arena& arena, uintptr_t base, size_t size, SegmentKind kind, Tags& tags);

struct Returned {
  uintptr_t start = 0;
  size_t size = 0;
};
// Frees an allocated segment and merges it with its neighbours. If an imported span is then all
// free, removes it from the arena and returns it, to be exported to its source.
Returned release_segment(struct arena& arena, Segment* segment, Tags& tags);

void unlink(struct arena& arena, Segment& segment);
// Takes the allocated segment at `start` out of the hash; nullptr if there is none.
Segment* hash_remove(struct arena& arena, uintptr_t start);

// ---- The list of arenas (arena_list.cc). Any context; each takes the list's lock.

// Appends the arena to the list, with one reference, if no arena has the name.
bool enlist(struct arena& arena, const char* name);
// The same with a unique name: NAME, NAME.2 and so on.
void enlist_uniquely(struct arena& arena, const char* name);
// Makes a complete arena visible to arena_next and arena_find.
void announce(struct arena& arena);
// Frees the structure after the last reference is gone (arena.cc).
void bury(struct arena& arena);

// ---- Constraints and policies (arena_xalloc.cc).

struct Constraints {
  size_t size;  // whole quanta
  size_t align, phase, nocross;
  uintptr_t min, max;
};
// Panics for invalid constraints.
void check(const struct arena& arena, const Constraints& wanted, int flags);
// Allocates from the present segments, or from the source; 0 when there is no memory. One try.
uintptr_t try_constrained(struct arena& arena, const Constraints& constraints, int flags);
// Allocates whole quanta; retries after reaping if it may sleep, and counts failures (arena.cc).
// `constraints`: nullptr for none, by instant fit.
uintptr_t allocate_segment(struct arena& arena, size_t size, const Constraints* constraints,
                           int flags);

}  // namespace arena_impl
