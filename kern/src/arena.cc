// Arenas, after Bonwick & Adams, "Magazines and Vmem" (USENIX 2001).
//
// An arena hands out intervals (segments) of integers: memory, virtual addresses, ids. It consists of spans, each added
// by hand or imported from a source arena. Each span and each segment has a boundary tag; the tags of an arena are
// linked, each span's before those of its segments in the order of their addresses, so that the neighbours of a segment
// that comes back are its tag's.
//
// - Free segments are also on the free list of their size's power of two: list n holds sizes of 2^n to 2^(n+1)-1 quanta.
//   A bitmap says which lists are not empty.
// - Allocated segments are also in a hash by address, which grows with their number.
//
// Allocation is by instant fit: any segment of a list whose every segment is large enough, found in the bitmap in
// constant time. Only when there is none the list below is searched. What is left of the segment goes back to the free
// lists. A segment that comes back is merged with its free neighbours; an imported span that is all free goes back to
// the source.
//
// Requests of up to quantum_cache_max come from caches of one, two, … quanta, so from the magazines of the CPU.
//
// Boundary tags come from one pool. An operation takes those that it can need before it takes the arena's lock, and
// gives the rest back after it. The pool is filled by pages from base_arena's own free segments, for which a tag is
// needed in turn: kReserve tags are kept for this, one for each CPU (filling happens with interrupts off), so that the
// pool never waits for itself.
//
// Locks: an arena's lock is never held while source, caches or pool are called; so importing and returning a span
// happen between two holds, and a span that was imported for a request is entered and used under one. With a lock held,
// an operation takes constant time but for the search mentioned, a chain of the hash, and the growth of the hash, which
// moves it in one go.
#include "arena.h"

#include <array>
#include <bit>
#include <utility>

#include "arch/x86_64/interrupts.h"
#include "cpu.h"
#include "kmalloc.h"
#include "lib/format.h"
#include "lib/string.h"
#include "lib/units.h"
#include "log.h"
#include "slab.h"
#include "slab_trace.h"
#include "spinlock.h"

namespace {

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

constexpr unsigned kFreeLists = 64;
constexpr size_t kFirstBuckets = 16;
constexpr size_t kQuantumCaches = 16;
// An operation that finds nothing imports: a span's tag, its segment's, and one for what is left of a segment.
constexpr size_t kTagsForOperation = 3;

}  // namespace

struct arena {
  // Fixed at creation.
  char name[ARENA_NAME_MAX];
  size_t quantum;
  unsigned quantum_shift;
  arena_import import;
  arena_export export_;
  struct arena* source;
  size_t quantum_cache_max;
  std::array<kmem_cache*, kQuantumCaches> quantum_caches;  // [n] for n + 1 quanta

  struct arena* next_arena;  // lock of the list of arenas

  alignas(Spinlock) std::array<std::byte, sizeof(Spinlock)> lock_storage;
  Spinlock& lock() { return *reinterpret_cast<Spinlock*>(lock_storage.data()); }

  // Guarded by lock().
  Segment* first;  // lowest tag
  std::array<Segment*, kFreeLists> free_lists;
  uint64_t free_bitmap;
  Segment** hash;
  unsigned hash_shift;  // 64 - log2 of the number of buckets
  bool hash_growing;
  std::array<Segment*, kFirstBuckets> first_hash;
  uint64_t total_bytes, allocated_bytes, imported_bytes;
  uint64_t allocations, frees, live, tags;
  std::array<uint64_t, kFreeLists> free_segments;
  uint64_t failures;
};

namespace {

constinit Spinlock list_lock{LockRank::kArena};
constinit struct arena* first_arena = nullptr;
constinit struct arena base_arena_storage {};
constinit kmem_cache* arena_cache = nullptr;

// ---- Boundary tags.

class TagPool {
 public:
  // Links `count` more tags into the pool.
  void add(Segment* tags, size_t count) {
    Guard guard(lock_);
    for (size_t i = 0; i < count; i++) push(&tags[i]);
  }
  void give(Segment* tag) {
    Guard guard(lock_);
    push(tag);
  }
  // `count` tags, linked by list_next; nullptr if that would touch the reserve.
  Segment* take(size_t count) {
    Guard guard(lock_);
    if (free_count_ < kReserve + count) return nullptr;
    Segment* tags = nullptr;
    for (size_t i = 0; i < count; i++) {
      Segment* const tag = pop();
      tag->list_next = tags;
      tags = tag;
    }
    return tags;
  }
  // One of the reserve, to fill the pool. Interrupts off until it is filled.
  Segment* take_reserved() {
    Guard guard(lock_);
    ASSERT(free_count_ > 0);
    return pop();
  }

  static constexpr size_t kReserve = kMaxCpus;

 private:
  void push(Segment* tag) REQUIRES(lock_) {
    tag->list_next = free_;
    free_ = tag;
    free_count_++;
  }
  Segment* pop() REQUIRES(lock_) {
    free_count_--;
    return std::exchange(free_, free_->list_next);
  }

  Spinlock lock_{LockRank::kArenaTags};
  Segment* free_ GUARDED_BY(lock_) = nullptr;
  size_t free_count_ GUARDED_BY(lock_) = 0;
};

constinit TagPool tag_pool;
constinit std::array<Segment, TagPool::kReserve + 64> first_tags{};

bool fill_tag_pool();

// The tags that an operation may need; what it did not use goes back to the pool with the scope.
class Tags {
 public:
  Tags() = default;
  Tags(const Tags&) = delete;
  Tags& operator=(const Tags&) = delete;
  ~Tags() {
    while (tags_) tag_pool.give(pop());
  }
  // False when out of memory.
  bool reserve(size_t count) {
    while (!(tags_ = tag_pool.take(count))) {
      if (!fill_tag_pool()) return false;
    }
    return true;
  }
  Segment* make(uintptr_t start, size_t size, SegmentKind kind) {
    ASSERT(tags_);
    Segment* const tag = pop();
    *tag = {start, size, kind, nullptr, nullptr, nullptr, nullptr};
    return tag;
  }
  // A tag that is not needed any more.
  void put(Segment* tag) {
    tag->list_next = tags_;
    tags_ = tag;
  }

 private:
  Segment* pop() { return std::exchange(tags_, tags_->list_next); }

  Segment* tags_ = nullptr;
};

// ---- Segments of an arena. All with its lock held.

unsigned free_list_of(const struct arena& arena, size_t size) {
  return std::bit_width(size >> arena.quantum_shift) - 1;
}

void push_free(struct arena& arena, Segment& segment) {
  const unsigned list = free_list_of(arena, segment.size);
  segment.kind = SegmentKind::kFree;
  segment.list_prev = nullptr;
  segment.list_next = arena.free_lists[list];
  if (segment.list_next) segment.list_next->list_prev = &segment;
  arena.free_lists[list] = &segment;
  arena.free_bitmap |= uint64_t{1} << list;
  arena.free_segments[list]++;
}

void remove_free(struct arena& arena, Segment& segment) {
  const unsigned list = free_list_of(arena, segment.size);
  if (segment.list_prev)
    segment.list_prev->list_next = segment.list_next;
  else
    arena.free_lists[list] = segment.list_next;
  if (segment.list_next) segment.list_next->list_prev = segment.list_prev;
  if (!arena.free_lists[list]) arena.free_bitmap &= ~(uint64_t{1} << list);
  arena.free_segments[list]--;
}

void link_after(struct arena& arena, Segment* before, Segment& segment) {
  segment.prev = before;
  segment.next = before ? before->next : arena.first;
  if (before)
    before->next = &segment;
  else
    arena.first = &segment;
  if (segment.next) segment.next->prev = &segment;
  arena.tags++;
}

void unlink(struct arena& arena, Segment& segment) {
  if (segment.prev)
    segment.prev->next = segment.next;
  else
    arena.first = segment.next;
  if (segment.next) segment.next->prev = segment.prev;
  arena.tags--;
}

size_t hash_buckets(const struct arena& arena) {
  return size_t{1} << (64 - arena.hash_shift);
}

Segment** hash_bucket(const struct arena& arena, uintptr_t start) {
  return &arena.hash[((start >> arena.quantum_shift) * 0x9e3779b97f4a7c15) >> arena.hash_shift];
}

void hash_insert(struct arena& arena, Segment& segment) {
  Segment** const bucket = hash_bucket(arena, segment.start);
  segment.list_next = *bucket;
  *bucket = &segment;
}

Segment* hash_remove(struct arena& arena, uintptr_t start) {
  for (Segment** place = hash_bucket(arena, start); *place; place = &(*place)->list_next) {
    if ((*place)->start == start) return std::exchange(*place, (*place)->list_next);
  }
  return nullptr;
}

// Instant fit.
Segment* find_free(const struct arena& arena, size_t size) {
  const unsigned exact = free_list_of(arena, size);
  const unsigned sure = std::has_single_bit(size >> arena.quantum_shift) ? exact : exact + 1;
  if (sure < kFreeLists) {
    if (const uint64_t lists = arena.free_bitmap >> sure << sure) return arena.free_lists[std::countr_zero(lists)];
  }
  Segment* segment = arena.free_lists[exact];
  while (segment && segment->size < size) segment = segment->list_next;
  return segment;
}

// Makes the first `size` bytes of a free segment an allocated one.
void allocate_from(struct arena& arena, Segment& segment, size_t size, Tags& tags) {
  remove_free(arena, segment);
  if (segment.size > size) {
    Segment* const rest = tags.make(segment.start + size, segment.size - size, SegmentKind::kFree);
    link_after(arena, &segment, *rest);
    push_free(arena, *rest);
    segment.size = size;
  }
  segment.kind = SegmentKind::kAllocated;
  hash_insert(arena, segment);
  arena.allocated_bytes += size;
  arena.allocations++;
  arena.live++;
}

// Enters a span with one free segment, which is returned. Spans stand in the order in which they came, newest first.
Segment* enter_span(struct arena& arena, uintptr_t base, size_t size, SegmentKind kind, Tags& tags) {
  Segment* const span = tags.make(base, size, kind);
  Segment* const segment = tags.make(base, size, SegmentKind::kFree);
  link_after(arena, nullptr, *span);
  link_after(arena, span, *segment);
  push_free(arena, *segment);
  arena.total_bytes += size;
  if (kind == SegmentKind::kImportedSpan) arena.imported_bytes += size;
  return segment;
}

struct Returned {
  uintptr_t start = 0;
  size_t size = 0;
};

// Makes an allocated segment free, merged with its neighbours. If it is now all of an imported span, the span leaves
// the arena and is returned for its source.
Returned release_segment(struct arena& arena, Segment* segment, Tags& tags) {
  arena.allocated_bytes -= segment->size;
  arena.frees++;
  arena.live--;
  if (Segment* const next = segment->next; next && next->kind == SegmentKind::kFree) {
    remove_free(arena, *next);
    segment->size += next->size;
    unlink(arena, *next);
    tags.put(next);
  }
  if (Segment* const prev = segment->prev; prev->kind == SegmentKind::kFree) {
    remove_free(arena, *prev);
    prev->size += segment->size;
    unlink(arena, *segment);
    tags.put(segment);
    segment = prev;
  }
  Segment* const span = segment->prev;
  if (span->kind != SegmentKind::kImportedSpan || span->size != segment->size) {
    push_free(arena, *segment);
    return {};
  }
  const Returned returned{span->start, span->size};
  arena.total_bytes -= span->size;
  arena.imported_bytes -= span->size;
  unlink(arena, *segment);
  unlink(arena, *span);
  tags.put(segment);
  tags.put(span);
  return returned;
}

// ---- Operations.

// A page of base_arena becomes tags. False when there is none.
bool fill_tag_pool() {
  InterruptsOff off;
  Segment* page = nullptr;
  {
    Tags tags;
    tags.put(tag_pool.take_reserved());
    Guard guard(base_arena->lock());
    Segment* const segment = find_free(*base_arena, kPageSize);
    if (segment) {
      allocate_from(*base_arena, *segment, kPageSize, tags);
      page = reinterpret_cast<Segment*>(segment->start);
    }
  }
  if (page) tag_pool.add(page, kPageSize / sizeof(Segment));
  return page != nullptr;
}

void grow_hash(struct arena& arena) {
  size_t buckets;
  {
    Guard guard(arena.lock());
    if (arena.hash_growing || arena.live <= 2 * hash_buckets(arena)) return;
    arena.hash_growing = true;
    buckets = hash_buckets(arena) * 8;
  }
  const size_t bytes = align_up(buckets * sizeof(Segment*), kPageSize);
  auto** table = static_cast<Segment**>(arena_alloc(base_arena, bytes, KM_ATOMIC));
  if (table) memset(table, 0, bytes);
  size_t old_bytes = 0;
  {
    Guard guard(arena.lock());
    arena.hash_growing = false;
    if (!table) return;
    const size_t old_buckets = hash_buckets(arena);
    Segment** const old = std::exchange(arena.hash, table);
    arena.hash_shift = 64 - std::bit_width(buckets) + 1;
    for (size_t i = 0; i < old_buckets; i++) {
      for (Segment* segment = old[i]; segment;) {
        Segment* const next = segment->list_next;
        hash_insert(arena, *segment);
        segment = next;
      }
    }
    if (old == arena.first_hash.data()) return;
    table = old;
    old_bytes = align_up(old_buckets * sizeof(Segment*), kPageSize);
  }
  arena_free(base_arena, table, old_bytes);
}

void note_failure(struct arena& arena) {
  Guard guard(arena.lock());
  arena.failures++;
}

// From the segments that are there; 0 if none fits.
uintptr_t allocate_present(struct arena& arena, size_t size, Tags& tags) {
  Guard guard(arena.lock());
  Segment* const segment = find_free(arena, size);
  if (!segment) return 0;
  allocate_from(arena, *segment, size, tags);
  return segment->start;
}

// From a span that is imported for it; 0 when the source has none.
uintptr_t allocate_imported(struct arena& arena, size_t size, int flags, Tags& tags) {
  if (!arena.source) return 0;
  const size_t span_size = align_up(size, arena.source->quantum);
  const auto base = reinterpret_cast<uintptr_t>(arena.import(arena.source, span_size, flags));
  if (base == 0) return 0;
  Guard guard(arena.lock());
  Segment* const segment = enter_span(arena, base, span_size, SegmentKind::kImportedSpan, tags);
  allocate_from(arena, *segment, size, tags);
  return base;
}

// From the segments that are there, or from the source; 0 when there is no memory.
uintptr_t try_segment(struct arena& arena, size_t size, int flags) {
  Tags tags;
  if (!tags.reserve(kTagsForOperation)) return 0;
  const uintptr_t address = allocate_present(arena, size, tags);
  return address ? address : allocate_imported(arena, size, flags, tags);
}

ALLOCATOR_TEXT uintptr_t allocate_segment(struct arena& arena, size_t size, int flags) {
  uintptr_t address = try_segment(arena, size, flags);
  if (address == 0 && (flags & KM_SLEEP)) {
    kmem_reap();
    address = try_segment(arena, size, flags);
  }
  if (address == 0) {
    note_failure(arena);
    return 0;
  }
  // A glance without the lock: it says when to look closer.
  if (__atomic_load_n(&arena.live, __ATOMIC_RELAXED) > 2 * hash_buckets(arena)) grow_hash(arena);
  return address;
}

// The caches of one quantum, two quanta, … A slab has at least three objects of the largest cache, and is larger than
// any request that they serve, so that it never comes from them. False when out of memory.
bool make_quantum_caches(struct arena& arena, size_t quantum_cache_max) {
  const size_t slab_size = std::bit_ceil(3 * quantum_cache_max);
  for (size_t i = 0; i < quantum_cache_max >> arena.quantum_shift; i++) {
    const size_t size = (i + 1) << arena.quantum_shift;
    char name[ARENA_NAME_MAX];
    format(name, sizeof(name), "%s_%zu", arena.name, size);
    arena.quantum_caches[i] = kmem_qcache_create(name, size, slab_size, &arena);
    if (!arena.quantum_caches[i]) return false;
  }
  arena.quantum_cache_max = quantum_cache_max;
  return true;
}

void initialize(struct arena& arena, const char* name, size_t quantum) {
  ASSERT(std::has_single_bit(quantum));
  format(arena.name, sizeof(arena.name), "%s", name);
  arena.quantum = quantum;
  arena.quantum_shift = std::countr_zero(quantum);
  new (arena.lock_storage.data()) Spinlock(LockRank::kArena);
  arena.hash = arena.first_hash.data();
  arena.hash_shift = 64 - std::countr_zero(kFirstBuckets);
}

void enlist(struct arena& arena) {
  Guard guard(list_lock);
  struct arena** end = &first_arena;
  while (*end) end = &(*end)->next_arena;
  *end = &arena;
}

void delist(struct arena& arena) {
  Guard guard(list_lock);
  struct arena** place = &first_arena;
  while (*place != &arena) place = &(*place)->next_arena;
  *place = arena.next_arena;
}

// Frees what an arena has besides its spans.
void dismantle(struct arena* arena) {
  for (kmem_cache* cache : arena->quantum_caches) {
    if (cache) kmem_cache_destroy(cache);
  }
  if (arena->hash != arena->first_hash.data())
    arena_free(base_arena, arena->hash, align_up(hash_buckets(*arena) * sizeof(Segment*), kPageSize));
  kmem_cache_free(arena_cache, arena);
}

}  // namespace

constinit struct arena* base_arena = nullptr;

void arena_init(uintptr_t base, size_t size) {
  tag_pool.add(first_tags.data(), first_tags.size());
  initialize(base_arena_storage, "base", kPageSize);
  base_arena = &base_arena_storage;
  enlist(*base_arena);
  if (arena_add(base_arena, base, size, KM_ATOMIC) != 0) panic("no memory for the base arena");
}

struct arena* arena_create(const char* name, uintptr_t base, size_t size, size_t quantum, arena_import import,
                           arena_export export_, struct arena* source, size_t quantum_cache_max, int flags) {
  if (!arena_cache) {
    arena_cache = kmem_cache_create("arena", sizeof(struct arena), alignof(struct arena), KMC_NOTRACE, base_arena,
                                    nullptr, nullptr, nullptr);
    if (!arena_cache) return nullptr;
  }
  ASSERT(quantum_cache_max % quantum == 0 && quantum_cache_max / quantum <= kQuantumCaches);
  auto* const made = static_cast<struct arena*>(kmem_cache_alloc(arena_cache, flags | KM_ZERO));
  if (!made) return nullptr;
  initialize(*made, name, quantum);
  made->import = import;
  made->export_ = export_;
  made->source = source;
  if ((size != 0 && arena_add(made, base, size, flags) != 0) ||
      (quantum_cache_max != 0 && !make_quantum_caches(*made, quantum_cache_max))) {
    dismantle(made);
    return nullptr;
  }
  enlist(*made);
  return made;
}

void arena_destroy(struct arena* arena) {
  delist(*arena);
  for (kmem_cache*& cache : arena->quantum_caches) {
    if (cache) kmem_cache_destroy(std::exchange(cache, nullptr));
  }
  if (arena->live != 0) panic("arena %s is destroyed with %lu live segments", arena->name, arena->live);
  while (Segment* const tag = arena->first) {
    ASSERT(tag->kind != SegmentKind::kImportedSpan);
    unlink(*arena, *tag);
    tag_pool.give(tag);
  }
  dismantle(arena);
}

int arena_add(struct arena* arena, uintptr_t base, size_t size, int) {
  ASSERT(base != 0 && base % arena->quantum == 0 && size % arena->quantum == 0);
  Tags tags;
  if (!tags.reserve(2)) return -static_cast<int>(Errno::ENOMEM);
  Guard guard(arena->lock());
  enter_span(*arena, base, size, SegmentKind::kSpan, tags);
  return 0;
}

ALLOCATOR_TEXT void* arena_alloc(struct arena* arena, size_t size, int flags) {
  if (size == 0 || size > SIZE_MAX / 2) return nullptr;
  size = align_up(size, arena->quantum);
  if (size <= arena->quantum_cache_max)
    return kmem_cache_alloc(arena->quantum_caches[(size >> arena->quantum_shift) - 1], flags & ~KM_ZERO);
  return reinterpret_cast<void*>(allocate_segment(*arena, size, flags & ~KM_ZERO));
}

ALLOCATOR_TEXT void arena_free(struct arena* arena, void* address, size_t size) {
  size = align_up(size, arena->quantum);
  if (size <= arena->quantum_cache_max) {
    kmem_cache_free(arena->quantum_caches[(size >> arena->quantum_shift) - 1], address);
    return;
  }
  Returned returned;
  {
    Tags tags;
    Guard guard(arena->lock());
    Segment* const segment = hash_remove(*arena, reinterpret_cast<uintptr_t>(address));
    if (!segment) panic("arena %s: %p is given back, but is not allocated", arena->name, address);
    if (segment->size != size)
      panic("arena %s: %p is given back with size %zu, but has %zu", arena->name, address, size, segment->size);
    returned = release_segment(*arena, segment, tags);
  }
  if (returned.size != 0) arena->export_(arena->source, reinterpret_cast<void*>(returned.start), returned.size);
}

void arena_stats(struct arena* arena, struct arena_stats* stats) {
  Guard guard(arena->lock());
  *stats = {};
  stats->quantum = arena->quantum;
  stats->total_bytes = arena->total_bytes;
  stats->allocated_bytes = arena->allocated_bytes;
  stats->imported_bytes = arena->imported_bytes;
  stats->allocations = arena->allocations;
  stats->frees = arena->frees;
  stats->live = arena->live;
  stats->segments = arena->tags;
  stats->hash_buckets = hash_buckets(*arena);
  stats->hash_items = arena->live;
  for (unsigned i = 0; i < kFreeLists; i++) stats->free_segments[i] = arena->free_segments[i];
  stats->failures = arena->failures;
}

const char* arena_name(const struct arena* arena) {
  return arena->name;
}
struct arena* arena_source(const struct arena* arena) {
  return arena->source;
}

struct arena* arena_next(struct arena* arena) {
  Guard guard(list_lock);
  return arena ? arena->next_arena : first_arena;
}
