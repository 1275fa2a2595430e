// Internals shared by arena.cc (operations), arena_segments.cc (segments, free lists, hash),
// arena_tags.cc (the pool of boundary tags), arena_list.cc (the list of arenas) and arena_traced.cc
// (quantum caches of traced arenas). The theory is in arena.cc.
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
  Segment *prev, *next;  // neighbours by address in the arena
  // Neighbours in a free list. The hash and the tag pool use only list_next.
  Segment *list_prev, *list_next;

  bool is_span() const { return kind == SegmentKind::kSpan || kind == SegmentKind::kImportedSpan; }
};

inline constexpr unsigned kFreeLists = 64;
inline constexpr size_t kQuantumCaches = 16;

extern constinit Spinlock list_lock;  // of the list of arenas (arena_list.cc)

// Counts a span of `size` bytes in the statistics. Called for pages that become boundary tags,
// because these pages are allocated without arena_span_alloc.
void count_span(struct arena& arena, size_t size);

}  // namespace arena_impl

struct arena {
  // Fixed at creation.
  char name[ARENA_NAME_MAX];
  size_t quantum;
  unsigned quantum_shift;
  arena_import import;
  arena_export export_;
  struct arena* parent;
  bool forwards;         // all requests are forwarded to the parent (arena_forward)
  size_t cached_quanta;  // the largest allocation that a quantum cache serves
  std::array<kmem_cache*, arena_impl::kQuantumCaches> quantum_caches;  // [n] serves n + 1 quanta

  // Accessed atomically.
  uint32_t flags;   // set by the tracer
  uint32_t zombie;  // 1 once the arena is destroyed; its quantum caches must not be used then
  uint32_t
      lookers;  // number of CPUs that are reading its quantum caches; arena_destroy waits for 0
  trace_table* trace;
  // Spans that caches and other arenas have imported: number of allocations, number of frees, and
  // bytes not freed yet.
  uint64_t span_allocations, span_frees, span_bytes;

  struct arena* next_arena GUARDED_BY(arena_impl::list_lock);
  // One reference for the living arena, one for each holder.
  uint64_t references GUARDED_BY(arena_impl::list_lock);
  // Complete and visible in the list; until then the name is only reserved.
  bool announced GUARDED_BY(arena_impl::list_lock);

  alignas(Spinlock) mutable std::array<std::byte, sizeof(Spinlock)> lock_storage;
  Spinlock& lock() const { return *reinterpret_cast<Spinlock*>(lock_storage.data()); }

  arena_impl::Segment* first GUARDED_BY(lock());  // head of the list of tags
  std::array<arena_impl::Segment*, arena_impl::kFreeLists> free_lists GUARDED_BY(lock());
  uint64_t free_bitmap GUARDED_BY(lock());
  // Finds the tag of an allocated segment by its start address. linear_hash_wanted is also called
  // without the lock, as a hint.
  struct linear_hash hash GUARDED_BY(lock());
  // The hash, for functions that change it.
  struct linear_hash* locked_hash() REQUIRES(lock()) {
    return &hash;
  }
  bool hash_growing GUARDED_BY(lock());  // a CPU is about to give memory to the hash
  uint64_t total_bytes GUARDED_BY(lock());
  uint64_t allocated_bytes GUARDED_BY(lock());
  uint64_t imported_bytes GUARDED_BY(lock());
  uint64_t allocations GUARDED_BY(lock());
  uint64_t frees GUARDED_BY(lock());
  uint64_t live GUARDED_BY(lock());
  uint64_t tags GUARDED_BY(lock());
  std::array<uint64_t, arena_impl::kFreeLists> free_segments GUARDED_BY(lock());
  uint64_t failures GUARDED_BY(lock());
};

namespace arena_impl {

// The number of quanta that an allocation of `size` bytes takes.
inline size_t quanta_of(const struct arena& arena, size_t size) {
  return (size + arena.quantum - 1) >> arena.quantum_shift;
}
inline bool is_cached(const struct arena& arena, size_t quanta) {
  return quanta <= arena.cached_quanta;
}
inline kmem_cache* quantum_cache(const struct arena& arena, size_t quanta) {
  return arena.quantum_caches[quanta - 1];
}
// Notes that an object of a quantum cache is handed out (`out` true) or freed. Panics if the cache
// has no such object, if the object is handed out twice, or if it is freed while it is free. Called
// only with CONFIG_SLAB_CHECK_CALLS. Without this option, an invalid free is found later, when the
// magazine with the object is emptied.
void note_cached(const struct arena& arena, const void* address, size_t quanta, bool out);
// Panics if `flags` has KM_SLEEP and the caller may not sleep.
void check_sleep(const struct arena& arena, int flags);

// True if the flag is set. The same as arena_flags() & flag, but compiled to one test instruction
// on memory; for an atomic load the compiler would use a register.
[[gnu::always_inline]] inline bool has_flag(const struct arena& arena, uint32_t flag) {
  bool has;
  asm("testl %2, %1" : "=@ccnz"(has) : "m"(arena.flags), "i"(flag));
  return SLAB_OS_FLAG_TESTS && has;
}
// Returns the arena's trace. Called after has_flag(). The fence keeps the compiler from reading the
// trace before the flag; the processor does not reorder reads (Intel SDM volume 3, section 9.2.2).
[[gnu::always_inline]] inline trace_table* trace_of(const struct arena& arena) {
  __atomic_signal_fence(__ATOMIC_ACQUIRE);
  return arena.trace;
}

// ---- Traced arenas (arena_traced.cc). `size` bytes take `quanta`; the recorded stack begins at
// `frame`.

// `size` and `frame` are where arena_trace_alloc() has them, which saves moves.
void* alloc_traced(struct arena& arena, size_t quanta, size_t size, const void* frame, int flags);
void free_traced(struct arena& arena, void* address, size_t quanta);
// The general paths of arena_alloc() and arena_free(), for traced arenas and fault injection
// (arena.cc).
void* alloc_anyhow(struct arena& arena, size_t size, int flags, const void* frame);
void free_anyhow(struct arena& arena, void* address, size_t quanta);

// ---- Boundary tags (arena_tags.cc).

// The tags that an operation may need. The destructor returns unused tags to the pool. Any context
// but NMI.
class Tags {
 public:
  Tags() = default;
  Tags(const Tags&) = delete;
  Tags& operator=(const Tags&) = delete;
  ~Tags();
  // Takes `count` tags from the pool. False when out of memory.
  bool reserve(size_t count) EXCLUDES(base_arena->lock());
  // Takes one of the tags and fills it in.
  Segment* make(uintptr_t start, size_t size, SegmentKind kind);
  // Adds a tag that is not used any more.
  void put(Segment* tag);

 private:
  Segment* pop();

  Segment* tags_ = nullptr;
};

// Fills the pool with a page of tags if it is so low that one of the next few operations would have
// to fill it. Returns true if it has filled the pool. Any context but NMI.
bool fill_tags_early() EXCLUDES(base_arena->lock());
// Adds the first tags to the pool. Once, at boot.
void tags_init();
// Bytes of the pages that have become tags. These pages are never given back.
uint64_t tag_bytes();

// ---- Segments of an arena (arena_segments.cc). Sizes are in bytes.

// Instant fit: a free segment of at least `size`; nullptr if there is none.
Segment* find_free(const struct arena& arena, size_t size) REQUIRES(arena.lock());

// Makes the first `size` bytes of a free segment an allocated segment.
void allocate_from(struct arena& arena, Segment& segment, size_t size, Tags& tags)
    REQUIRES(arena.lock());
// Adds a span with one free segment, and returns this segment. The span's tags go to the front of
// the arena's list of tags.
Segment* enter_span(struct arena& arena, uintptr_t base, size_t size, SegmentKind kind, Tags& tags)
    REQUIRES(arena.lock());

// A span that the caller exports to the parent; none if `size` is 0.
struct Returned {
  uintptr_t start = 0;
  size_t size = 0;
};
// Frees an allocated segment and merges it with its free neighbours. If this leaves an imported
// span entirely free, removes the span from the arena and returns the span.
Returned release_segment(struct arena& arena, Segment* segment, Tags& tags) REQUIRES(arena.lock());

// Removes a tag from the arena's list of tags.
void unlink(struct arena& arena, Segment& segment) REQUIRES(arena.lock());

// ---- The list of arenas (arena_list.cc). Any context.

// Appends the arena to the list, with one reference. False if another arena has the name.
bool enlist(struct arena& arena, const char* name) EXCLUDES(list_lock);
// Appends the arena to the list, with one reference, under a unique name. This is `name`; if an
// arena or a cache has that name already, it is NAME.2, NAME.3 and so on.
void enlist_uniquely(struct arena& arena, const char* name) EXCLUDES(list_lock);
// Makes a complete arena visible to arena_next and arena_find.
void announce(struct arena& arena) EXCLUDES(list_lock);
// Frees the arena's structure after the last reference is gone (arena.cc).
void free_structure(struct arena& arena) EXCLUDES(list_lock);

}  // namespace arena_impl
