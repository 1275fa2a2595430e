"""The table of #mem/kmemstat (kern/drivers/dev/mem_stats.cc), made from the kernel's memory."""
from stele.debugger.arenas import all_arenas
from stele.debugger.caches import all_caches
from stele.debugger.memory import constant
from stele.debugger.ref_classes import ref_classes

_NAME_WIDTH = 34


def _traced(flags):
    if flags & constant("KMC_NOTRACE"):
        return "never"
    if flags & constant("KMC_TRACED"):
        return "running"
    return "stopped" if flags & constant("KMC_EVER_TRACED") else "off"


def _line(depth, name, kind, size, total, allocated, live, allocations, frees, flags):
    name = "  " * depth + name
    return f"{name:{_NAME_WIDTH}} {kind} {size:8} {total:13} {allocated:13} {live:9} {allocations:12} {frees:12} {_traced(flags)}"


def kmemstat(kernel):
    """The lines of #mem/kmemstat."""
    yield f"{'NAME':{_NAME_WIDTH}} T {'OBJSIZE':>8} {'TOTAL':>13} {'ALLOCATED':>13} {'LIVE':>9} {'ALLOCS':>12} {'FREES':>12} TRACED"
    caches = [cache for cache in all_caches(kernel) if not cache.structure.zombie]
    arenas = all_arenas(kernel)

    def tree(arena, depth):
        size, live, allocations, frees = arena.direct()
        structure = arena.structure
        yield _line(depth, arena.name, "A", structure.quantum, structure.total_bytes, size, live, allocations, frees, structure.flags)
        for cache in caches:
            if cache.structure.arena == arena.address:
                ever, back = cache.counts()
                size = cache.structure.object_size
                yield _line(depth + 1, cache.name, "S", size, cache.total_bytes(), (ever - back) * size, ever - back, ever, back, cache.structure.flags)
        for other in arenas:
            if other.structure.parent == arena.address:
                yield from tree(other, depth + 1)

    for arena in arenas:
        if not arena.structure.parent:
            yield from tree(arena, 0)
    for one in ref_classes(kernel):
        yield _line(0, one.name, "R", 0, 0, 0, one.live(), one.taken, one.put, one.structure.flags)
