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
        """Returns (allocated bytes, live objects, allocations, frees) of direct callers, like direct_stats() of the kernel: includes objects of the
        arena's quantum caches, and leaves out spans that caches and other arenas have taken."""
        arena = self.structure
        size, allocations, frees = arena.allocated_bytes, arena.allocations, arena.frees
        for cache in self.quantum_caches():
            ever, back = cache.counts()
            allocations, frees = allocations + ever, frees + back
            size += (ever - back) * cache.structure.object_size
        allocations, frees = max(allocations - arena.span_allocations, 0), max(frees - arena.span_frees, 0)
        return max(size - arena.span_bytes, 0), max(allocations - frees, 0), allocations, frees

    def segments(self):
        """The free and the allocated segments."""
        return [segment for segment, _ in self.kernel.once(_segments_in_order, self.structure.first)[1]]

    def segment_at(self, address):
        """Returns (segment, kind such as "kAllocated") of the free or allocated segment that contains the address; None if there is none."""
        starts, segments = self.kernel.once(_segments_in_order, self.structure.first)
        place = bisect.bisect_right(starts, address) - 1
        if place < 0 or address >= starts[place] + segments[place][0].size:
            return None
        return segments[place]


def _segments_in_order(kernel, first):
    """Returns ([start of each segment], [(segment, kind)]) in order of addresses, for the arena whose list of tags begins at `first`."""
    kinds = enumerators("arena_impl::SegmentKind")
    tags = ((segment, kinds.get(segment.kind, "")) for segment in kernel.list_from("arena_impl::Segment", first))
    segments = sorted((tag for tag in tags if not tag[1].endswith("Span")), key=lambda tag: tag[0].start)
    return [segment.start for segment, _ in segments], segments


def all_arenas(kernel):
    """Returns all arenas in order of creation, except arenas that are still being created."""
    first = kernel.variable("first_arena")
    return [Arena(kernel, structure) for structure in kernel.list_from("struct arena", first, "next_arena") if structure.announced]
