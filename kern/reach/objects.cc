// The allocator knows which objects are live: the objects that are out of their slabs but in no
// magazine (slab_walk.h), and the segments of arenas that hand out memory (arena_walk.h). A segment
// is not an object if it is a span, that is, if it holds the slabs of a cache or the segments of
// another arena. Small allocations from an arena are objects of its quantum caches. An arena is
// walked after its source arena, because index.h requires that outer runs are added before inner
// ones.
//
// The index leaves out the memory of some arenas:
// - base_arena. It serves only the allocator's own structures and the tracer; all other users get
//   memory from the page arena.
// - KM_NOTRACE arenas. Their memory is neither scanned nor listed.
// - Arenas with a quantum smaller than a page.
#include "reach/objects_impl.h"

#include "arch/x86_64/paging.h"
#include "arena_walk.h"
#include "core/boot.h"
#include "pages.h"
#include "reach/roots_impl.h"
#include "slab_walk.h"

namespace reach {
namespace {

uint64_t address_of(const void* pointer) {
  return reinterpret_cast<uint64_t>(pointer);
}

bool has_objects(const struct arena* arena) {
  return arena_walk_is_memory(arena) && arena_quantum(arena) >= kPageSize;
}

class Builder {
 public:
  Builder(Index& index, std::span<Source> sources) : index_(index), sources_(sources) {}

  uint32_t build() {
    walk_caches(KMEM_WALK_MAGAZINES, nullptr);
    walk_caches(KMEM_WALK_SLABS, nullptr);
    note_own_magazines();
    for (struct arena* arena = arena_walk_next(nullptr); arena; arena = arena_walk_next(arena)) {
      if (!arena_walk_is_memory(arena) || arena == base_arena) continue;
      walk_arena(arena);
      walk_caches(KMEM_WALK_QUANTA, arena);
    }
    walk_caches(KMEM_WALK_CALLERS, nullptr);
    return count_;
  }

 private:
  // Callbacks of slab_walk.h.
  struct Walk : kmem_walk {
    Index& index;
    uint16_t source;
    bool walks;
    bool pages;  // the objects are whole pages, which may hold bytes
    uint64_t payload;
  };
  // Callbacks of arena_walk.h.
  struct Segments final : ArenaWalk {
    Segments(Index& index, uint16_t source, bool listed)
        : index(index), source(source), listed(listed) {}
    void span(uint64_t base, size_t) override { index.cover(base); }
    void segment(uint64_t base, size_t size) override {
      if (!listed) return;
      index.add(base, size, {base, 0, size, nullptr, 0, 1, source, false});
      hide_bytes(index, base, size, 1);
    }
    Index& index;
    const uint16_t source;
    const bool listed;
  };

  static void add_slab(kmem_walk* base, const kmem_walk_slab* slab) {
    auto& walk = *static_cast<Walk*>(base);
    walk.index.add(address_of(slab->pages), slab->slab_size,
                   {address_of(slab->base), 0, slab->size, nullptr,
                    slab->count > 1 ? static_cast<uint32_t>(slab->stride) : 0, slab->count,
                    walk.source, walk.walks, walk.payload});
    if (walk.pages) hide_bytes(walk.index, address_of(slab->base), slab->stride, slab->count);
  }
  // Sets kOpaque for each object of whole pages that holds bytes: such objects are not scanned.
  // They are pages that a program has mapped or a file has, and large allocations of kmalloc_bytes.
  static void hide_bytes(Index& index, uint64_t address, uint64_t stride, uint32_t count) {
    for (uint32_t i = 0; i < count; i++, address += stride) {
      const Page* const page = page_of(reinterpret_cast<void*>(address));
      if (page->mappings.load(std::memory_order_relaxed) == 0 &&
          !(page->large_pages & kPagesOfBytes))
        continue;
      if (const Object object = index.find(address)) object.state() |= kOpaque;
    }
  }
  static void add_not_live(kmem_walk* walk, void* object, kmem_walk_state, unsigned) {
    static_cast<Walk*>(walk)->index.set_dead(address_of(object));
  }
  static void add_in_place(kmem_walk* walk, void* object) {
    static_cast<Walk*>(walk)->index.set_dead(address_of(object));
  }

  // Marks the magazines of the KMEM_WALK_OWN caches as not live. The index has no objects of these
  // caches, but their magazines are objects in the index. These magazines must not be followed,
  // since stale words in a magazine lead to objects of other owners.
  void note_own_magazines() {
    for (kmem_cache* cache = kmem_walk_next(nullptr); cache; cache = kmem_walk_next(cache)) {
      if (kmem_walk_kind_of(cache) != KMEM_WALK_OWN) continue;
      Walk walk{{[](kmem_walk*, const kmem_walk_slab*) {},
                 [](kmem_walk*, void*, kmem_walk_state, unsigned) {}, add_in_place},
                index_,
                0,
                false,
                false,
                0};
      kmem_walk_cache(cache, &walk);
    }
  }

  // Walks the caches of a kind. If `source` is not nullptr, only caches with this source arena are
  // walked.
  void walk_caches(kmem_walk_kind kind, const struct arena* source) {
    for (kmem_cache* cache = kmem_walk_next(nullptr); cache; cache = kmem_walk_next(cache)) {
      struct arena* const arena = kmem_cache_arena(cache);
      if (kmem_walk_kind_of(cache) != kind || (source && arena != source) || !has_objects(arena))
        continue;
      const bool listed =
          kind == KMEM_WALK_CALLERS || (kind == KMEM_WALK_QUANTA && !arena_walk_is_private(arena));
      const int number = add_source({kind == KMEM_WALK_QUANTA ? nullptr : cache, arena, listed});
      if (number < 0) continue;
      Walk walk{{add_slab, add_not_live, add_in_place},
                index_,
                static_cast<uint16_t>(number),
                find_walker(cache) != nullptr,
                kind == KMEM_WALK_QUANTA,
                kmem_cache_payload(cache)};
      kmem_walk_cache(cache, &walk);
    }
  }

  void walk_arena(struct arena* arena) {
    const bool listed = !arena_walk_is_private(arena) && has_objects(arena);
    const int number = add_source({nullptr, arena, listed});
    if (number < 0) return;
    Segments segments(index_, static_cast<uint16_t>(number), listed);
    arena_walk(arena, segments);
  }

  // Returns the source's number; -1 if there is no room.
  int add_source(const Source& source) {
    const uint32_t number = count_++;
    if (number >= sources_.size() || number > UINT16_MAX) return -1;
    sources_[number] = source;
    return static_cast<int>(number);
  }

  Index& index_;
  const std::span<Source> sources_;
  uint32_t count_ = 0;
};

}  // namespace

Needs estimate() {
  Needs needs{boot_info().highest.value >> kPageShift, 0, 0, 0};
  for (kmem_cache* cache = kmem_cache_next(nullptr); cache; cache = kmem_cache_next(cache)) {
    struct kmem_cache_stats stats;
    kmem_cache_stats(cache, &stats);
    needs.runs += stats.slabs;
    needs.objects += stats.objects_in_slabs;
    needs.sources++;
  }
  for (struct arena* arena = arena_next(nullptr); arena; arena = arena_next(arena)) {
    if (has_objects(arena) && arena != base_arena) {
      struct arena_stats stats;
      arena_stats(arena, &stats);
      needs.runs += stats.live;
      needs.objects += stats.live;
    }
    needs.sources++;
  }
  constexpr uint64_t kMoreRuns = 1024, kMoreObjects = 16384, kMoreSources = 32;
  needs.runs += needs.runs / 8 + kMoreRuns;
  needs.objects += needs.objects / 8 + kMoreObjects;
  needs.sources += kMoreSources;
  return needs;
}

uint32_t index_objects(Index& index, std::span<Source> sources) {
  return Builder(index, sources).build();
}

}  // namespace reach
