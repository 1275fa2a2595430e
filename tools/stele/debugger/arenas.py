"""Arenas and their segments: kern/src/arena.cc."""
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
        """(bytes, live, allocations, frees) of direct callers: what quantum caches serve too, but no spans; direct_stats()."""
        arena = self.structure
        size, allocations, frees = arena.allocated_bytes, arena.allocations, arena.frees
        for cache in self.quantum_caches():
            ever, back = cache.counts()
            allocations, frees = allocations + ever, frees + back
            size += (ever - back) * cache.structure.object_size
        allocations, frees = max(allocations - arena.span_allocations, 0), max(frees - arena.span_frees, 0)
        return max(size - arena.span_bytes, 0), max(allocations - frees, 0), allocations, frees

    def segment_at(self, address):
        """(segment, its kind as "kAllocated") that an address lies in, no span; None. Looks at each segment until it finds it."""
        kinds = enumerators("arena_impl::SegmentKind")
        for segment in self.kernel.list_from("arena_impl::Segment", self.structure.first):
            kind = kinds.get(segment.kind, "")
            if not kind.endswith("Span") and segment.start <= address < segment.start + segment.size:
                return segment, kind
        return None


def all_arenas(kernel):
    """In order of creation, without those that are being made."""
    first = kernel.variable("first_arena")
    return [Arena(kernel, structure) for structure in kernel.list_from("struct arena", first, "next_arena") if structure.announced]
