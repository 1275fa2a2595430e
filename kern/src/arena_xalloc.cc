// Constrained allocation from arenas, and the policies best fit and next fit: vmem_xalloc of
// Bonwick & Adams (2001).
//
// All policies use lowest_fit, which computes the lowest address within an interval that meets the
// constraints. `align` and `nocross` are powers of two; the larger of them is the period. If an
// address meets alignment, phase and nocross, then so do all addresses that differ from it by a
// multiple of the period. So an interval that is longer than the request by the period contains a
// valid address, wherever the interval starts. Instant fit uses this length to choose a free list
// on which every segment is large enough. An import uses it for the size of the span.
//
// The policies differ in the order in which they try free segments:
// - Instant fit takes the first segment of a list on which all segments are large enough. If there
//   is none, it tries each segment of the list for the requested size, then of the lists above.
// - Best fit starts at the list for the requested size and goes up to the first list that has a
//   segment that fits. It takes the smallest such segment of this list.
// - Next fit tries the segments in the order of their tags. It starts where the last next-fit
//   allocation ended (the rotor), goes on to the last tag, and continues from the first tag.
//
// The rotor is an address. rotor_tag is the tag of a segment in the rotor's span that begins at the
// rotor or below. rotor_tag stays valid when segments change: a split keeps the old tag for the
// front part, and when a merge removes rotor_tag, unlink() replaces it by the preceding tag. A
// search first walks from rotor_tag to the segment that contains the rotor. When the span is
// returned to its source, the rotor moves to the start of the next span.
#include <algorithm>
#include <bit>

#include "arena_impl.h"
#include "core/log.h"
#include "lib/units.h"

namespace arena_impl {
namespace {

// Two tags for an imported span and its segment, and two for the free segments that remain before
// and after the allocation.
constexpr size_t kTagsForOperation = 4;

// Addresses that meet alignment, phase and nocross repeat after this many bytes.
size_t period(const Constraints& wanted) {
  return std::max(wanted.align, wanted.nocross);
}

// True if some address meets alignment, phase and nocross.
bool possible(const Constraints& wanted) {
  if (wanted.nocross == 0) return true;
  return wanted.size <= wanted.nocross &&
         (wanted.phase & (wanted.nocross - 1)) <= wanted.nocross - wanted.size;
}

// The lowest address in first..last that meets the constraints; 0 if there is none.
uintptr_t lowest_fit(const Constraints& wanted, uintptr_t first, uintptr_t last) {
  const uintptr_t low = std::max(first, wanted.min), high = std::min(last, wanted.max);
  uintptr_t address = low + ((wanted.phase - low) & (wanted.align - 1));
  if (address < low) return 0;
  if (wanted.nocross && (address & (wanted.nocross - 1)) > wanted.nocross - wanted.size) {
    // Here nocross is larger than align. Otherwise all addresses with this phase would have the
    // same residue modulo nocross. At each of them the allocation would cross a multiple of
    // nocross, and possible() would have returned false.
    const uintptr_t boundary = align_up(address, wanted.nocross);
    address = boundary + wanted.phase;
    if (address < low) return 0;
  }
  return address <= high && high - address >= wanted.size - 1 ? address : 0;
}

struct Fit {
  Segment* segment = nullptr;
  uintptr_t address = 0;
};

Fit fit_in(const Constraints& wanted, Segment& segment) {
  const uintptr_t address = lowest_fit(wanted, segment.start, segment.start + segment.size - 1);
  return {address ? &segment : nullptr, address};
}

Fit instant_fit(const struct arena& arena, const Constraints& wanted) {
  size_t sure_size;
  if (wanted.min == 0 && wanted.max == UINTPTR_MAX &&
      !__builtin_add_overflow(wanted.size, period(wanted) - arena.quantum, &sure_size)) {
    if (Segment* const segment = first_free(arena, sure_list_of(arena, sure_size)))
      return fit_in(wanted, *segment);
  }
  for (unsigned list = free_list_of(arena, wanted.size); list < kFreeLists; list++) {
    for (Segment* segment = arena.free_lists[list]; segment; segment = segment->list_next) {
      if (const Fit fit = fit_in(wanted, *segment); fit.segment) return fit;
    }
  }
  return {};
}

// Among segments of the same size, takes the one at the lowest address.
Fit best_fit(const struct arena& arena, const Constraints& wanted) {
  Fit best;
  for (unsigned list = free_list_of(arena, wanted.size); list < kFreeLists && !best.segment;
       list++) {
    for (Segment* segment = arena.free_lists[list]; segment; segment = segment->list_next) {
      const Fit fit = fit_in(wanted, *segment);
      if (!fit.segment) continue;
      if (!best.segment || segment->size < best.segment->size ||
          (segment->size == best.segment->size && segment->start < best.segment->start))
        best = fit;
    }
  }
  return best;
}

Fit next_fit(struct arena& arena, const Constraints& wanted) {
  Segment* begin = arena.rotor_tag ? arena.rotor_tag : arena.first;
  if (!begin) return {};
  while (begin->next && !begin->next->is_span() && begin->next->start <= arena.rotor)
    begin = begin->next;
  if (begin->kind == SegmentKind::kFree) {
    const uintptr_t first = std::max(begin->start, arena.rotor),
                    last = begin->start + begin->size - 1;
    if (const uintptr_t address = lowest_fit(wanted, first, last)) return {begin, address};
  }
  Segment* segment = begin;
  do {
    segment = segment->next ? segment->next : arena.first;
    if (segment->kind != SegmentKind::kFree) continue;
    if (const Fit fit = fit_in(wanted, *segment); fit.segment) return fit;
  } while (segment != begin);
  return {};
}

Fit find(struct arena& arena, const Constraints& wanted, int flags) {
  if (flags & KM_NEXTFIT) return next_fit(arena, wanted);
  return flags & KM_BESTFIT ? best_fit(arena, wanted) : instant_fit(arena, wanted);
}

void allocate_at(struct arena& arena, Fit fit, size_t size, int flags, Tags& tags) {
  if (fit.address != fit.segment->start)
    fit.segment = split_free(arena, *fit.segment, fit.address - fit.segment->start, tags);
  allocate_from(arena, *fit.segment, size, tags);
  if (flags & KM_NEXTFIT) {
    arena.rotor = fit.address + size;
    arena.rotor_tag = fit.segment;
  }
}

uintptr_t allocate_present(struct arena& arena, const Constraints& wanted, int flags, Tags& tags) {
  Guard guard(arena.lock());
  const Fit fit = find(arena, wanted, flags);
  if (fit.segment) allocate_at(arena, fit, wanted.size, flags, tags);
  return fit.address;
}

// Imports a span and allocates from it. The source aligns the span only to its own quantum.
uintptr_t allocate_imported(struct arena& arena, const Constraints& wanted, int flags, Tags& tags) {
  if (!arena.source) return 0;
  const size_t granule = std::min(period(wanted), arena.source->quantum);
  const size_t slack = (wanted.phase & (granule - 1)) + period(wanted) - granule;
  size_t span_size;
  if (__builtin_add_overflow(wanted.size, slack, &span_size) || span_size > SIZE_MAX / 2) return 0;
  span_size = align_up(span_size, arena.source->quantum);
  void* const span = arena.import(arena.source, span_size, flags);
  if (!span) return 0;
  const auto base = reinterpret_cast<uintptr_t>(span);
  const uintptr_t address = lowest_fit(wanted, base, base + span_size - 1);
  if (address == 0) {
    arena.export_(arena.source, span, span_size);
    return 0;
  }
  Guard guard(arena.lock());
  Segment* const segment = enter_span(arena, base, span_size, SegmentKind::kImportedSpan, tags);
  allocate_at(arena, {segment, address}, wanted.size, flags, tags);
  return address;
}

}  // namespace

void check(const struct arena& arena, const Constraints& wanted, int flags) {
  if (!std::has_single_bit(wanted.align))
    panic("arena %s: alignment 0x%zx", arena.name, wanted.align);
  if (wanted.phase >= wanted.align || wanted.phase % arena.quantum != 0)
    panic("arena %s: phase 0x%zx with alignment 0x%zx", arena.name, wanted.phase, wanted.align);
  if (wanted.nocross && !std::has_single_bit(wanted.nocross))
    panic("arena %s: nocross 0x%zx", arena.name, wanted.nocross);
  if ((flags & KM_BESTFIT) && (flags & KM_NEXTFIT)) panic("arena %s: two policies", arena.name);
}

uintptr_t try_constrained(struct arena& arena, const Constraints& wanted, int flags) {
  if (!possible(wanted) || wanted.min > wanted.max) return 0;
  Tags tags;
  if (!tags.reserve(kTagsForOperation)) return 0;
  const uintptr_t address = allocate_present(arena, wanted, flags, tags);
  return address ? address : allocate_imported(arena, wanted, flags, tags);
}

}  // namespace arena_impl
