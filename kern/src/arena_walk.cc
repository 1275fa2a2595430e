#include "arena_walk.h"

#include "arena_impl.h"

using arena_impl::Segment, arena_impl::SegmentKind;

bool arena_walk_is_memory(const struct arena* arena) {
  while (arena && arena != base_arena) arena = arena->parent;
  return arena != nullptr;
}

bool arena_walk_is_private(const struct arena* arena) {
  return (arena->flags & KMC_NOTRACE) != 0;
}

void arena_walk(const struct arena* arena, ArenaWalk& walk) {
  arena->lock().not_needed();  // nothing changes while the caller walks
  for (const Segment* segment = arena->first; segment; segment = segment->next) {
    if (segment->kind == SegmentKind::kImportedSpan) walk.span(segment->start, segment->size);
    if (segment->kind == SegmentKind::kAllocated) walk.segment(segment->start, segment->size);
  }
}

ArenaSegment arena_locate(const struct arena* arena, uint64_t address) {
  arena->lock().not_needed();
  for (const Segment* segment = arena->first; segment; segment = segment->next) {
    if (!segment->is_span() && address - segment->start < segment->size)
      return {segment->start, segment->size, segment->kind == SegmentKind::kFree};
  }
  return {};
}

kmem_cache* arena_walk_quantum_cache(const struct arena* arena, unsigned number) {
  return !arena->zombie && number < arena->quantum_caches.size() ? arena->quantum_caches[number]
                                                                 : nullptr;
}

bool arena_walk_forwards(const struct arena* arena) {
  return arena->forwards;
}

bool arena_walk_holds_tags(const ArenaSegment& segment) {
  for (struct arena* arena = arena_walk_next(nullptr); arena; arena = arena_walk_next(arena)) {
    arena->lock().not_needed();
    for (const Segment* tag = arena->first; tag; tag = tag->next) {
      if (!tag->is_span() && reinterpret_cast<uint64_t>(tag) - segment.start < segment.size)
        return true;
    }
  }
  return false;
}
