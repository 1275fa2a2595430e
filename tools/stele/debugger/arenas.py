"""Arenas and their segments: kern/src/arena.cc."""
import bisect

from stele.debugger.caches import Cache
from stele.debugger.memory import enumerators


class Arena:
    def __init__(self, kernel, structure):
        self.kernel, self.structure = kernel, structure
        self.address, self.name = structure.address, structure.name.decode("ascii", "replace")

    def quantum_caches(self):
        if self.structure.zombie:
            return
        for address in self.structure.quantum_caches:
            if not address:
                return
            yield Cache.at(self.kernel, address)

    def direct(self):
        """(bytes, live, allocations, frees) of direct callers, with the objects of quantum caches
        and without spans; direct_stats()."""
        arena = self.structure
        size, allocations, frees = arena.allocated_bytes, arena.allocations, arena.frees
        for cache in self.quantum_caches():
            ever, back = cache.counts()
            allocations, frees = allocations + ever, frees + back
            size += (ever - back) * cache.structure.object_size
        allocations, frees = max(allocations - arena.span_allocations, 0), max(frees - arena.span_frees, 0)
        return max(size - arena.span_bytes, 0), max(allocations - frees, 0), allocations, frees

    def segments(self):
        """Free and allocated ones."""
        return [segment for segment, _ in self.kernel.once(_segments_in_order, self.structure.first)[1]]

    def segment_at(self, address):
        """(segment, kind as "kAllocated") of an address, no span; None."""
        starts, segments = self.kernel.once(_segments_in_order, self.structure.first)
        place = bisect.bisect_right(starts, address) - 1
        if place < 0 or address >= starts[place] + segments[place][0].size:
            return None
        return segments[place]


def _segments_in_order(kernel, first):
    """([start of each], [(segment, kind)]) of the arena whose first tag is given."""
    kinds = enumerators("arena_impl::SegmentKind")
    tags = ((segment, kinds.get(segment.kind, "")) for segment in kernel.list_from("arena_impl::Segment", first))
    segments = sorted((tag for tag in tags if not tag[1].endswith("Span")), key=lambda tag: tag[0].start)
    return [segment.start for segment, _ in segments], segments


def all_arenas(kernel):
    """In order of creation, without those under construction."""
    first = kernel.variable("first_arena")
    return [Arena(kernel, structure) for structure in kernel.list_from("struct arena", first, "next_arena") if structure.announced]
