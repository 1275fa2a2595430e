// Arenas, after Bonwick & Adams, "Magazines and Vmem" (USENIX 2001).
//
// An arena hands out intervals (segments) of integers: memory, virtual addresses, ids. It consists
// of spans. A span is added explicitly, or imported from a parent arena. Each span and each segment
// has a boundary tag. One list has all tags of an arena: each span's tag is followed by the tags of
// the span's segments, in order of address. So the tags next to a segment's tag are those of its
// neighbours.
//
// - Free segments are also on free lists by size: list n holds sizes of 2^n to 2^(n+1)-1 quanta. A
//   bitmap has a bit for each list that is not empty.
// - Allocated segments are also in a hash by address, which grows with their number.
//
// Allocation is by instant fit: the bitmap gives, in constant time, a list on which all segments
// are large enough, and the first segment of this list is taken. If there is no such list, the next
// smaller list is searched for a segment that is large enough. The part of the segment that is not
// needed goes back to a free list. A freed segment is merged with its free neighbours. An imported
// span that has become one free segment goes back to the parent.
//
// An arena can also forward each request to its parent and only count what its users hold
// (arena_forward). The tracer's arena does, because the tracer's hooks must be short.
//
// Requests of up to quantum_cache_max bytes are served by caches whose objects have one, two, …
// quanta, and so usually by the CPU's magazines.
//
// Boundary tags come from one pool. An operation takes all tags that it may need before it takes
// the arena's lock, and returns the unused tags afterwards. The pool grows by pages from
// base_arena's own free segments. Taking such a page may need a tag itself. For this the pool keeps
// a reserve of one tag for each CPU (kReserve). One tag per CPU is enough, because a CPU keeps
// interrupts off while it fills the pool, and so does not start to fill the pool twice.
//
// Locks: an arena's lock is not held during calls to its parent, its caches or the tag pool. So it
// is not held while a span is imported or returned. An imported span is added, and the allocation
// is taken from it, without releasing the lock in between. An operation holds the lock for constant
// time, with two exceptions: the search of the next smaller list, and walking one or two chains of
// the hash (linear_hash.h).
#include <array>
#include <bit>
#include <utility>

#include "arch/x86_64/interrupts.h"
#include "arena_impl.h"
#include "core/log.h"
#include "core/spinlock.h"
#include "kasan.h"
#include "lib/format.h"
#include "lib/result.h"
#include "lib/string.h"
#include "lib/units.h"
#include "slab.h"
#include "slab_trace.h"

using arena_impl::enter_span, arena_impl::has_flag, arena_impl::is_cached,
    arena_impl::kQuantumCaches, arena_impl::note_cached, arena_impl::quanta_of,
    arena_impl::quantum_cache, arena_impl::release_segment, arena_impl::Returned,
    arena_impl::Segment, arena_impl::SegmentKind, arena_impl::Tags, arena_impl::unlink;

namespace {

// One tag for the rest of a segment that is cut. An arena with a parent needs two more, for an
// imported span and its segment.
constexpr size_t tags_for_operation(const struct arena& arena) {
  return arena.parent ? 3 : 1;
}

constinit struct arena base_arena_storage {};
constinit kmem_cache* arena_cache = nullptr;

bool give_hash_memory(struct arena& arena, void* memory, size_t bytes) EXCLUDES(arena.lock()) {
  Guard guard(arena.lock());
  arena.hash_growing = false;
  return memory && linear_hash_give(arena.locked_hash(), memory, bytes);
}

// Gives the hash the memory that it asks for. False if it asks for no memory, or when out of
// memory. Memory for the hash of base_arena comes from base_arena itself, and this allocation calls
// grow_hash again; hash_growing makes the nested call return.
// stack: recursion up to 2 deep, because the hash of another arena grows by memory of base_arena.
bool grow_hash(struct arena& arena) EXCLUDES(arena.lock()) {
  if (linear_hash_wanted(&arena.hash) == 0) return false;  // only a hint: read without the lock
  size_t bytes;
  {
    Guard guard(arena.lock());
    bytes = arena.hash_growing ? 0 : linear_hash_wanted(&arena.hash);
    if (bytes == 0) return false;
    arena.hash_growing = true;
  }
  void* const memory = arena_span_alloc(base_arena, bytes, KM_ATOMIC);
  if (give_hash_memory(arena, memory, bytes)) return true;
  if (memory) arena_span_free(base_arena, memory, bytes);
  return false;
}

void* take_hash_memory(struct arena& arena, size_t* bytes) EXCLUDES(arena.lock()) {
  Guard guard(arena.lock());
  return linear_hash_take(arena.locked_hash(), bytes);
}

// Gives back to base_arena the memory that the hash does not need any more.
void shrink_hash(struct arena& arena) EXCLUDES(arena.lock()) {
  size_t bytes;
  while (void* const memory = take_hash_memory(arena, &bytes))
    arena_span_free(base_arena, memory, bytes);
}

void note_failure(struct arena& arena) EXCLUDES(arena.lock()) {
  Guard guard(arena.lock());
  arena.failures++;
}

// Allocates from the arena's free segments; 0 if none fits.
uintptr_t allocate_present(struct arena& arena, size_t size, Tags& tags) EXCLUDES(arena.lock()) {
  Guard guard(arena.lock());
  Segment* const segment = arena_impl::find_free(arena, size);
  if (!segment) return 0;
  arena_impl::allocate_from(arena, *segment, size, tags);
  return segment->start;
}

// Imports a span and allocates from it; 0 when the parent has no memory.
uintptr_t allocate_imported(struct arena& arena, size_t size, int flags, Tags& tags)
    EXCLUDES(arena.lock()) {
  if (!arena.parent) return 0;
  const size_t span_size = align_up(size, arena.parent->quantum);
  const auto base = reinterpret_cast<uintptr_t>(arena.import(arena.parent, span_size, flags));
  if (base == 0) return 0;
  Guard guard(arena.lock());
  Segment* const segment = enter_span(arena, base, span_size, SegmentKind::kImportedSpan, tags);
  arena_impl::allocate_from(arena, *segment, size, tags);
  return base;
}

// count_forwarded() and count_returned() count an allocation and a free in an arena that forwards
// requests to its parent. An allocation is counted after the import, a free before the export, so
// that the counts never include memory that belongs to the parent.
void count_forwarded(struct arena& arena, size_t size) EXCLUDES(arena.lock()) {
  Guard guard(arena.lock());
  arena.total_bytes = arena.imported_bytes = arena.allocated_bytes += size;
  arena.allocations++;
  arena.live++;
}
void count_returned(struct arena& arena, uintptr_t start, size_t size) EXCLUDES(arena.lock()) {
  Guard guard(arena.lock());
  if (arena.allocated_bytes < size)
    panic("arena %s: 0x%lx is given back, but is not allocated", arena.name, start);
  arena.total_bytes = arena.imported_bytes = arena.allocated_bytes -= size;
  arena.frees++;
  arena.live--;
}

uintptr_t forward(struct arena& arena, size_t size, int flags) EXCLUDES(arena.lock()) {
  void* const memory = arena.import(arena.parent, size, flags);
  if (memory) count_forwarded(arena, size);
  return reinterpret_cast<uintptr_t>(memory);
}

// Allocates from the arena's free segments, or from a span imported from the parent; 0 when there
// is no memory. Does not reap.
uintptr_t try_segment(struct arena& arena, size_t size, int flags) EXCLUDES(arena.lock()) {
  if (arena.forwards) return forward(arena, size, flags);
  Tags tags;
  if (!tags.reserve(tags_for_operation(arena))) return 0;
  const uintptr_t address = allocate_present(arena, size, tags);
  return address ? address : allocate_imported(arena, size, flags, tags);
}

// Makes the caches of one quantum, two quanta, … False when out of memory. A slab holds at least
// three objects of the largest cache. So a slab is larger than quantum_cache_max, and the memory
// for a slab never comes from a quantum cache.
bool make_quantum_caches(struct arena& arena, size_t quantum_cache_max) {
  const size_t slab_size = std::bit_ceil(3 * quantum_cache_max);
  for (size_t i = 0; i < quantum_cache_max >> arena.quantum_shift; i++) {
    const size_t size = (i + 1) << arena.quantum_shift;
    char name[ARENA_NAME_MAX];
    format(name, sizeof(name), "%s_%zu", arena.name, size);
    arena.quantum_caches[i] = kmem_qcache_create(name, size, slab_size, &arena);
    if (!arena.quantum_caches[i]) return false;
  }
  arena.cached_quanta = quantum_cache_max >> arena.quantum_shift;
  return true;
}

void initialize(struct arena& arena, size_t quantum) {
  ASSERT(std::has_single_bit(quantum));
  arena.quantum = quantum;
  arena.quantum_shift = std::countr_zero(quantum);
  new (arena.lock_storage.data()) Spinlock(LockRank::kArena);
  linear_hash_init(&arena.hash, offsetof(Segment, list_next), offsetof(Segment, start));
}

// ---- The end of an arena.

void free_tags(struct arena& arena) {
  arena.lock().not_needed();  // nobody uses the arena any more
  if (arena.live != 0)
    panic("arena %s is destroyed with %lu live segments", arena.name, arena.live);
  Tags tags;
  while (Segment* const tag = arena.first) {
    ASSERT(tag->kind != SegmentKind::kImportedSpan);
    unlink(arena, *tag);
    tags.put(tag);
  }
}

// Frees everything but the structure, which others may still refer to.
void dismantle(struct arena& arena) {
  for (kmem_cache* cache : arena.quantum_caches) {
    if (cache) kmem_cache_destroy(cache);
  }
  free_tags(arena);
  shrink_hash(arena);
}

// Frees a segment that is not an object of a quantum cache.
void free_segment(struct arena& arena, uintptr_t start, size_t size) EXCLUDES(arena.lock()) {
  if (arena.forwards) {
    count_returned(arena, start, size);
    arena.export_(arena.parent, reinterpret_cast<void*>(start), size);
    return;
  }
  Returned returned;
  {
    Tags tags;
    Guard guard(arena.lock());
    auto* const segment = static_cast<Segment*>(linear_hash_remove(arena.locked_hash(), start));
    if (!segment) panic("arena %s: 0x%lx is given back, but is not allocated", arena.name, start);
    if (segment->size != size)
      panic("arena %s: 0x%lx is given back with size %zu, but has %zu", arena.name, start, size,
            segment->size);
    returned = release_segment(arena, segment, tags);
  }
  if (linear_hash_spare(&arena.hash)) shrink_hash(arena);
  if (returned.size != 0)
    arena.export_(arena.parent, reinterpret_cast<void*>(returned.start), returned.size);
}

// Allocates whole quanta. With KM_SLEEP, reaps memory and tries again if there is none. Counts
// failures.
ALLOCATOR_TEXT uintptr_t allocate_segment(struct arena& arena, size_t size, int flags)
    EXCLUDES(arena.lock()) {
  arena_impl::check_sleep(arena, flags);
  // The last allocation may have made the hash too small. The hash grows at the start of an
  // allocation, not at the end, so that arena_prepare() can do this work in advance.
  grow_hash(arena);
  // try_segment gets no KM_SLEEP. Otherwise each parent would reap, too, and one failure would reap
  // many times.
  uintptr_t address = try_segment(arena, size, flags & ~KM_SLEEP);
  for (int extent = KMEM_REAP_SURPLUS;
       address == 0 && (flags & KM_SLEEP) && extent <= KMEM_REAP_ALL; extent++) {
    kmem_reap_some(static_cast<kmem_reap_extent>(extent));
    address = try_segment(arena, size, flags & ~KM_SLEEP);
  }
  if (address == 0) note_failure(arena);
  return address;
}

// Allocates from a quantum cache or from the segments.
[[gnu::always_inline]] inline void* take(struct arena& arena, size_t quanta, int flags) {
  if (!is_cached(arena, quanta)) {
    const size_t size = quanta << arena.quantum_shift;
    return reinterpret_cast<void*>(allocate_segment(arena, size, flags & ~KM_ZERO));
  }
  void* const address = kmem_cache_alloc(quantum_cache(arena, quanta), flags & ~KM_ZERO);
  if constexpr (SLAB_OS_CHECK_CALLS) {
    if (address) note_cached(arena, address, quanta, true);
  }
  return address;
}

[[gnu::always_inline]] inline void give(struct arena& arena, void* address, size_t quanta) {
  if (!is_cached(arena, quanta))
    return free_segment(arena, reinterpret_cast<uintptr_t>(address), quanta << arena.quantum_shift);
  if constexpr (SLAB_OS_CHECK_CALLS) note_cached(arena, address, quanta, false);
  kmem_cache_free(quantum_cache(arena, quanta), address);
}

}  // namespace

#if SLAB_OS_CHECK_CALLS
void arena_impl::note_cached(const struct arena& arena, const void* address, size_t quanta,
                             bool out) {
  const char* const wrong = kmem_qcache_note(quantum_cache(arena, quanta), address, out);
  if (wrong)
    panic("arena %s: %p is %s with size %zu: %s", arena.name, address,
          out ? "handed out" : "given back", quanta << arena.quantum_shift, wrong);
}
#endif

// Asks fault injection whether the allocation is to fail. False for the tracer's own arena, because
// the tracer calls kmem_inject itself.
[[gnu::cold, gnu::noinline]] ALLOCATOR_TEXT static bool injected_failure(struct arena& arena,
                                                                         size_t size, int flags) {
  if ((arena_flags(&arena) & KMC_NOTRACE) || !kmem_inject(KMEM_INJECT_ARENA, &arena, size, flags))
    return false;
  note_failure(arena);
  return true;
}

// ---- Hooks for KernelAddressSanitizer (kasan.h).

#ifdef CONFIG_KASAN
static bool is_memory(const struct arena* arena) {
  while (arena && arena != base_arena) arena = arena->parent;
  return arena;
}
static void open_memory(const struct arena& arena, const void* address, size_t requested) {
  if (!address || !is_memory(&arena)) return;
  const size_t touched = align_up(requested, 8), whole = align_up(requested, arena.quantum);
  kasan_allow(address, requested);
  kasan_forbid(static_cast<const char*>(address) + touched, whole - touched, KASAN_REDZONE);
}
static void close_memory(const struct arena& arena, const void* address, size_t size) {
  if (!is_memory(&arena)) return;
  kasan_may_free(address);
  kasan_forbid(address, align_up(size, arena.quantum), KASAN_FREED_PAGES);
}
#else
static inline void open_memory(const struct arena&, const void*, size_t) {}
static inline void close_memory(const struct arena&, const void*, size_t) {}
#endif

// ---- Hooks for the tracer. The first test runs with interrupts on and may miss a concurrent
// change of the flags; the operation then counts as begun before the change.

// Calls the hook if the arena is traced. Returns `address`.
[[gnu::always_inline]] static inline void* note_allocation(struct arena& arena, void* address,
                                                           size_t requested,
                                                           const void* frame_pointer) {
  if (!has_flag(arena, KMC_TRACED) || !address) [[likely]]
    return address;
  const uint64_t saved = slab_os_irq_save();
  if (has_flag(arena, KMC_TRACED)) [[likely]]
    return arena_trace_alloc(arena_impl::trace_of(arena), address, requested, frame_pointer, saved);
  slab_os_irq_restore(saved);
  return address;
}

[[gnu::always_inline]] static inline void note_free(struct arena& arena, void* address) {
  if (!has_flag(arena, KMC_EVER_TRACED)) [[likely]]
    return;
  const uint64_t saved = slab_os_irq_save();
  if (has_flag(arena, KMC_EVER_TRACED)) [[likely]]
    return arena_trace_free(arena_impl::trace_of(arena), address, saved);
  slab_os_irq_restore(saved);
}

void arena_impl::check_sleep(const struct arena& arena, int flags) {
  if ((flags & KM_SLEEP) && !slab_os_may_sleep()) [[unlikely]]
    panic("%s: KM_SLEEP is requested, but the caller may not sleep", arena.name);
}

void arena_impl::free_structure(struct arena& arena) {
  arena_trace_destroy(&arena);
  kmem_cache_free(arena_cache, &arena);
}

constinit struct arena* base_arena = nullptr;

void arena_init(uintptr_t base, size_t size) {
  arena_impl::tags_init();
  initialize(base_arena_storage, kPageSize);
  base_arena = &base_arena_storage;
  arena_impl::enlist(*base_arena, "base");
  arena_impl::announce(*base_arena);
  if (arena_add(base_arena, base, size, KM_ATOMIC) != 0) panic("no memory for the base arena");
}

struct arena* arena_create(const char* name, uintptr_t base, size_t size, size_t quantum,
                           arena_import import, arena_export export_, struct arena* parent,
                           size_t quantum_cache_max, int flags) {
  if (!kmem_is_name(name)) panic("\"%s\" is not a valid name for an arena", name);
  if (!arena_cache) {
    arena_cache = kmem_cache_create("arena", sizeof(struct arena), alignof(struct arena),
                                    KMC_NOTRACE, base_arena, nullptr, nullptr, nullptr);
    if (!arena_cache) return nullptr;
  }
  ASSERT(quantum_cache_max % quantum == 0 && quantum_cache_max / quantum <= kQuantumCaches);
  const int memory_flags = flags & ~KM_NOTRACE;
  auto* const made =
      static_cast<struct arena*>(kmem_cache_alloc(arena_cache, memory_flags | KM_ZERO));
  if (!made) return nullptr;
  initialize(*made, quantum);
  if (flags & KM_NOTRACE) made->flags = KMC_NOTRACE;
  arena_impl::enlist_uniquely(*made, name);
  made->import = import;
  made->export_ = export_;
  made->parent = parent;
  if ((size != 0 && arena_add(made, base, size, memory_flags) != 0) ||
      (quantum_cache_max != 0 && !make_quantum_caches(*made, quantum_cache_max))) {
    dismantle(*made);
    arena_release(made);
    return nullptr;
  }
  arena_trace_entering(made, name);
  arena_impl::announce(*made);
  arena_trace_entered(made);
  return made;
}

void arena_destroy(struct arena* arena) {
  if (__atomic_exchange_n(&arena->zombie, 1, __ATOMIC_SEQ_CST))
    panic("arena %s is destroyed twice", arena->name);
  while (__atomic_load_n(&arena->lookers, __ATOMIC_SEQ_CST) != 0) asm volatile("pause");
  dismantle(*arena);
  arena_release(arena);
}

int arena_prepare(struct arena* arena) {
  return static_cast<int>(arena_impl::fill_tags_early() || grow_hash(*arena));
}

void arena_forward(struct arena* arena) {
  arena->lock().not_needed();  // nobody else uses the arena yet
  ASSERT(arena->parent && arena->quantum == arena->parent->quantum && arena->cached_quanta == 0 &&
         !arena->first);
  arena->forwards = true;
}

int arena_add(struct arena* arena, uintptr_t base, size_t size, int) {
  ASSERT(base != 0 && base % arena->quantum == 0 && size % arena->quantum == 0 && !arena->forwards);
  Tags tags;
  if (!tags.reserve(2)) return -static_cast<int>(Errno::ENOMEM);
  Guard guard(arena->lock());
  enter_span(*arena, base, size, SegmentKind::kSpan, tags);
  return 0;
}

// Not inlined, so that the fast paths of arena_alloc() and arena_free() save no registers.
[[gnu::cold, gnu::noinline]] ALLOCATOR_TEXT void* arena_impl::alloc_anyhow(struct arena& arena,
                                                                           size_t size, int flags,
                                                                           const void* frame) {
  if (SLAB_OS_FLAG_TESTS && kmem_inject_wanted() && injected_failure(arena, size, flags))
    return nullptr;
  void* const address = take(arena, quanta_of(arena, size), flags);
  open_memory(arena, address, size);
  return note_allocation(arena, address, size, frame);
}
[[gnu::cold, gnu::noinline]] ALLOCATOR_TEXT void arena_impl::free_anyhow(struct arena& arena,
                                                                         void* address,
                                                                         size_t quanta) {
  note_free(arena, address);
  give(arena, address, quanta);
}

ALLOCATOR_TEXT void* arena_alloc(struct arena* arena, size_t size, int flags) {
  if (size == 0 || size > SIZE_MAX / 2) return nullptr;
  const size_t quanta = quanta_of(*arena, size);
  if (SLAB_OS_FLAG_TESTS && kmem_inject_wanted()) [[unlikely]]
    return arena_impl::alloc_anyhow(*arena, size, flags, __builtin_frame_address(0));
  if (has_flag(*arena, KMC_TRACED)) [[unlikely]]
    return arena_impl::alloc_traced(*arena, quanta, size, __builtin_frame_address(0), flags);
  void* const address = take(*arena, quanta, flags);
  open_memory(*arena, address, size);
  return address;
}

ALLOCATOR_TEXT void arena_free(struct arena* arena, void* address, size_t size) {
  close_memory(*arena, address, size);
  const size_t quanta = quanta_of(*arena, size);
  if (has_flag(*arena, KMC_EVER_TRACED)) [[unlikely]]
    return arena_impl::free_traced(*arena, address, quanta);
  give(*arena, address, quanta);
}

ALLOCATOR_TEXT void arena_set_aside(struct arena* arena, void* address) {
  note_free(*arena, address);
}

ALLOCATOR_TEXT void arena_reissue(struct arena* arena, void* address, size_t size) {
  note_allocation(*arena, address, size, __builtin_frame_address(0));
}

ALLOCATOR_TEXT void arena_free_set_aside(struct arena* arena, void* address, size_t size) {
  close_memory(*arena, address, size);
  give(*arena, address, quanta_of(*arena, size));
}

void arena_impl::count_span(struct arena& arena, size_t size) {
  __atomic_fetch_add(&arena.span_allocations, 1, __ATOMIC_RELAXED);
  __atomic_fetch_add(&arena.span_bytes, size, __ATOMIC_RELAXED);
}

// stack: recursion up to 3 deep, because a quantum cache of page_arena takes slabs from page_arena,
// page_arena takes spans from base_arena, and base_arena takes the memory of its hash from itself.
ALLOCATOR_TEXT void* arena_span_alloc(struct arena* arena, size_t size, int flags) {
  if (size == 0 || size > SIZE_MAX / 2) return nullptr;
  void* const address = take(*arena, quanta_of(*arena, size), flags);
  if (address) arena_impl::count_span(*arena, align_up(size, arena->quantum));
  return address;
}

// stack: recursion up to 3 deep, because arena_span_alloc() has that much.
ALLOCATOR_TEXT void arena_span_free(struct arena* arena, void* address, size_t size) {
  __atomic_fetch_add(&arena->span_frees, 1, __ATOMIC_RELAXED);
  __atomic_fetch_sub(&arena->span_bytes, align_up(size, arena->quantum), __ATOMIC_RELAXED);
  give(*arena, address, quanta_of(*arena, size));
}

const char* arena_name(const struct arena* arena) {
  return arena->name;
}
size_t arena_quantum(const struct arena* arena) {
  return arena->quantum;
}
struct arena* arena_parent(const struct arena* arena) {
  return arena->parent;
}

int arena_is_zombie(const struct arena* arena) {
  return static_cast<int>(__atomic_load_n(&arena->zombie, __ATOMIC_SEQ_CST));
}

// ---- For the tracer.

int arena_flags(const struct arena* arena) {
  return static_cast<int>(__atomic_load_n(&arena->flags, __ATOMIC_RELAXED)) |
         (SLAB_OS_FLAG_TESTS ? 0 : KMC_NOTRACE);
}

void arena_change_flags(struct arena* arena, int set, int clear) {
  __atomic_fetch_and(&arena->flags, ~static_cast<uint32_t>(clear), __ATOMIC_SEQ_CST);
  __atomic_fetch_or(&arena->flags, static_cast<uint32_t>(set), __ATOMIC_SEQ_CST);
}

trace_table** arena_trace_slot(struct arena* arena) {
  return &arena->trace;
}
