#include "arena_walk.h"

#include "arena_impl.h"

using arena_impl::Segment, arena_impl::SegmentKind;

bool arena_walk_is_memory(const struct arena* arena) {
  while (arena && arena != base_arena) arena = arena->source;
  return arena != nullptr;
}

bool arena_walk_is_private(const struct arena* arena) {
  return (arena->flags & KMC_NOTRACE) != 0;
}

void arena_walk(const struct arena* arena, ArenaWalk& walk) {
  for (const Segment* segment = arena->first; segment; segment = segment->next) {
    if (segment->kind == SegmentKind::kImportedSpan) walk.span(segment->start, segment->size);
    if (segment->kind == SegmentKind::kAllocated) walk.segment(segment->start, segment->size);
  }
}
