// The segments of an arena: tags by address, free lists, hash. See arena.cc.
#include <bit>
#include <utility>

#include "arena_impl.h"

namespace arena_impl {
namespace {

// The free list for segments of `size`.
unsigned free_list_of(const struct arena& arena, size_t size) {
  return std::bit_width(size >> arena.quantum_shift) - 1;
}

// The first list whose segments all have at least `size`; kFreeLists if there is none.
unsigned sure_list_of(const struct arena& arena, size_t size) {
  return free_list_of(arena, size) + (std::has_single_bit(size >> arena.quantum_shift) ? 0 : 1);
}

// The first free segment of the lists from `list` on; nullptr if there is none.
Segment* first_free(const struct arena& arena, unsigned list) REQUIRES(arena.lock()) {
  if (list >= kFreeLists) return nullptr;
  const uint64_t lists = arena.free_bitmap >> list << list;
  return lists ? arena.free_lists[std::countr_zero(lists)] : nullptr;
}

void push_free(struct arena& arena, Segment& segment) REQUIRES(arena.lock()) {
  const unsigned list = free_list_of(arena, segment.size);
  segment.kind = SegmentKind::kFree;
  segment.list_prev = nullptr;
  segment.list_next = arena.free_lists[list];
  if (segment.list_next) segment.list_next->list_prev = &segment;
  arena.free_lists[list] = &segment;
  arena.free_bitmap |= uint64_t{1} << list;
  arena.free_segments[list]++;
}

void remove_free(struct arena& arena, Segment& segment) REQUIRES(arena.lock()) {
  const unsigned list = free_list_of(arena, segment.size);
  if (segment.list_prev)
    segment.list_prev->list_next = segment.list_next;
  else
    arena.free_lists[list] = segment.list_next;
  if (segment.list_next) segment.list_next->list_prev = segment.list_prev;
  if (!arena.free_lists[list]) arena.free_bitmap &= ~(uint64_t{1} << list);
  arena.free_segments[list]--;
}

void link_after(struct arena& arena, Segment* before, Segment& segment) REQUIRES(arena.lock()) {
  segment.prev = before;
  segment.next = before ? before->next : arena.first;
  if (before)
    before->next = &segment;
  else
    arena.first = &segment;
  if (segment.next) segment.next->prev = &segment;
  arena.tags++;
}

// Splits a segment after `size` bytes and returns the rest as another segment. Neither is on a free
// list.
Segment& cut(struct arena& arena, Segment& segment, size_t size, Tags& tags)
    REQUIRES(arena.lock()) {
  Segment& rest = *tags.make(segment.start + size, segment.size - size, SegmentKind::kFree);
  link_after(arena, &segment, rest);
  segment.size = size;
  return rest;
}

}  // namespace

void unlink(struct arena& arena, Segment& segment) {
  if (segment.prev)
    segment.prev->next = segment.next;
  else
    arena.first = segment.next;
  if (segment.next) segment.next->prev = segment.prev;
  arena.tags--;
}

Segment* find_free(const struct arena& arena, size_t size) {
  if (Segment* const segment = first_free(arena, sure_list_of(arena, size))) return segment;
  Segment* segment = arena.free_lists[free_list_of(arena, size)];
  while (segment && segment->size < size) segment = segment->list_next;
  return segment;
}

void allocate_from(struct arena& arena, Segment& segment, size_t size, Tags& tags) {
  remove_free(arena, segment);
  if (segment.size > size) push_free(arena, cut(arena, segment, size, tags));
  segment.kind = SegmentKind::kAllocated;
  linear_hash_insert(arena.locked_hash(), &segment);
  arena.allocated_bytes += size;
  arena.allocations++;
  arena.live++;
}

Segment* enter_span(struct arena& arena, uintptr_t base, size_t size, SegmentKind kind,
                    Tags& tags) {
  Segment* const span = tags.make(base, size, kind);
  Segment* const segment = tags.make(base, size, SegmentKind::kFree);
  link_after(arena, nullptr, *span);
  link_after(arena, span, *segment);
  push_free(arena, *segment);
  arena.total_bytes += size;
  if (kind == SegmentKind::kImportedSpan) arena.imported_bytes += size;
  return segment;
}

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

}  // namespace arena_impl
