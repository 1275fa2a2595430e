"""Caches: kern/src/slab.c, slab_layer.c, slab_magazine.c, slab_check.c.

In a page-backed cache, the descriptor of an object's page names the object's slab (slab_of). An object is
live if it is neither in the free list of its slab nor in a magazine of a CPU or of the depot. In a slab
with run-time checks, a state byte for each object takes the place of the free list.
"""
from stele.debugger.memory import Layout, constant, enumerators

_LISTS = ("SLABS_PARTIAL", "SLABS_FULL", "SLABS_EMPTY")


def cpu_count(kernel):
    return kernel.variable("info", "acpi.cc").cpu_count


class Slab:
    """A slab of a cache. `structure` is a kmem_slab; for a slab with run-time checks, the kmem_slab in a checked_slab."""

    def __init__(self, cache, structure):
        self.cache, self.structure, self.address = cache, structure, structure.address
        shape = cache.structure.checks if structure.checked else cache.structure
        self.stride, self.size = shape.stride, shape.slab_size
        self.count = shape.objects if structure.checked else cache.structure.objects_per_slab
        self.base = structure.base

    def state_of(self, item):
        """The state of an object of a checked slab, for example "FREE"."""
        states = Layout.of("struct checked_slab").offset("states")
        index = (item - self.base) // self.stride
        return enumerators("enum state").get(self.cache.kernel.read(self.address + states + index, 1)[0], "?")

    def items(self):
        return range(self.base, self.base + self.count * self.stride, self.stride)

    def free_items(self):
        """The objects that are free in the slab."""
        kernel = self.cache.kernel
        if self.structure.checked:
            return [item for item in self.items() if self.state_of(item) in ("FREE", "QUARANTINED")]
        if not self.cache.structure.small:
            bufctls = kernel.list_from("struct kmem_bufctl", self.structure.free_bufctls, most=self.count + 1)
            return [bufctl.object for bufctl in bufctls]
        free, found = self.structure.free_objects, []
        while free and len(found) < self.count:
            found.append(free)
            free = kernel.word(free)
        return found


class Cache:
    @staticmethod
    def at(kernel, address):
        return Cache(kernel, kernel.at("struct kmem_cache", address))

    def __init__(self, kernel, structure):
        self.kernel, self.structure = kernel, structure
        self.address, self.name = structure.address, structure.name.decode("ascii", "replace")

    def cpus(self):
        """Returns the cache's struct kmem_cpu of each CPU."""
        return self.kernel.array("struct kmem_cpu", self.structure.address_of("cpu"), cpu_count(self.kernel))

    def slabs(self):
        """Yields the slabs without run-time checks."""
        for place in _LISTS:
            for structure in self.kernel.list_from("struct kmem_slab", self.structure.slabs[constant(place)]):
                yield Slab(self, structure)

    def checked_slabs(self):
        address, following = self.structure.checked.lists[constant("ALL")][0], Layout.of("struct checked_slab").offset("links")
        while address:
            structure = self.kernel.at("struct checked_slab", address)
            yield Slab(self, structure.slab)
            address = self.kernel.word(address + following + 16 * constant("ALL"))

    def magazines(self):
        """Yields (address, number of objects) for each magazine of the CPUs and of the depot."""
        for cpu in self.cpus():
            yield from ((magazine, rounds) for magazine, rounds in ((cpu.loaded, cpu.rounds), (cpu.previous, cpu.previous_rounds)) if magazine)
        for first in (*(magazines.first for magazines in self.structure.magazines), self.structure.misfits):
            yield from ((magazine.address, magazine.rounds) for magazine in self.kernel.list_from("struct kmem_magazine", first))

    def rounds(self, magazine, rounds):
        """The objects in a magazine."""
        if not magazine or not rounds:
            return ()
        layout = Layout.of("struct kmem_magazine")
        objects = self.kernel.read(magazine + layout.offset("objects"), 8 * rounds)
        return memoryview(objects).cast("Q").tolist()


def all_caches(kernel):
    """All caches in order of creation, including destroyed ones with live objects."""
    return [Cache(kernel, structure) for structure in kernel.list_from("struct kmem_cache", kernel.variable("first_cache"))]


def slab_of(kernel, address):
    """Returns the Slab that contains an address of the direct map; None if the page at the address belongs to no slab."""
    page = page_of(kernel, address)
    if not page or not page.slab:
        return None
    structure = kernel.at("struct kmem_slab", page.slab)
    return Slab(Cache.at(kernel, structure.cache), structure)


def page_of(kernel, address):
    """Returns the descriptor of the page at an address of the direct map; None if the address is outside of the direct map or of memory."""
    frame = (address - kernel.constant("direct_map_base")) // kernel.constant("page_size")
    if not 0 <= frame < kernel.variable("frames", "pages.cc"):
        return None
    layout = Layout.of("Page")
    return kernel.at("Page", kernel.variable("descriptors", "pages.cc") + frame * layout.size)
