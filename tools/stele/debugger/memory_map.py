"""Describes the used memory of the kernel for build/tools/stele-reach (tools/reach/world.h): the
live objects, and the roots that lead to everything in use.

The description has the same objects and roots as the kernel's own search. In the kernel,
kern/reach/objects.cc finds the objects, with slab_walk.c and arena_walk.cc; kern/reach/roots.cc
and the registered ReachProviders find the roots. An object that contains other objects comes before
them. If the kernel has a provider or a walker that this module does not know, this module raises
Unreadable, because the memory that only the provider or the walker finds would seem lost.
"""
import struct

from stele.debugger.arenas import all_arenas
from stele.debugger.caches import Cache, all_caches
from stele.debugger.memory import PAGE, Layout, Unreadable, constant, enumerators
from stele.debugger.symbols import Symbols
from stele.debugger.tasks import all_tasks, cpus

# Registers have no addresses, so the description invents an address for each register. The invented addresses begin here: they are in user
# space, which has no kernel objects.
_LEAST_ADDRESS = 1 << 12
REGISTERS = ("rax", "rbx", "rcx", "rdx", "rsi", "rdi", "rbp", "rsp", *(f"r{number}" for number in range(8, 16)), "rip", "cs")
_INTERRUPT_FRAME = struct.Struct("<5Q")  # rip, cs, rflags, rsp, ss: pushed by the CPU


class MemoryMap:
    """A description of memory. `text`: the description for stele-reach; `sources`: the Cache or Arena of each source, by its number; `registers`:
    {address in the description: name of the register}."""

    def __init__(self, kernel):
        self.kernel, self.sources, self.registers, self._lines = kernel, [], {}, []
        if not kernel.variable("kernel_virtual_arena"):
            raise Unreadable("there are no objects yet: the kernel is still booting")
        self._arenas = all_arenas(kernel)
        self._by_address = {arena.address: arena for arena in self._arenas}
        self._caches = all_caches(kernel)
        self._memory()
        self._objects()
        self._roots()
        self.text = "\n".join(self._lines) + "\n"

    def _put(self, word, *numbers):
        self._lines.append(" ".join([word, *(f"{number:x}" for number in numbers)]))

    def _memory(self):
        kernel = self.kernel
        self._put("memory", kernel.constant("direct_map_base"), kernel.variable("frames", "pages.cc") * PAGE, kernel.constant("image_base"),
                  kernel.label("image_end"), kernel.variable("kernel_root", "paging.cc").value)
        page = Layout.of("Page")
        self._put("pages", kernel.variable("descriptors", "pages.cc"), page.size, page.offset("slab"), page.offset("mappings"),
                  page.offset("large_pages"), constant("kPagesOfBytes"))

    # --- Objects.

    def _objects(self):
        by_kind = self._caches_by_kind()
        self._walkers = _walkers(self.kernel)
        self._add_caches(by_kind["magazines"], listed=False)
        self._add_caches(by_kind["slabs"], listed=False)
        self._note_own_magazines(by_kind["own"])
        base = self.kernel.variable("base_arena")
        for arena in self._arenas:
            if self._is_memory(arena) and arena.address != base:
                self._add_arena(arena)
                quanta = [cache for cache in by_kind["quanta"] if cache.structure.arena == arena.address]
                self._add_caches(quanta, _is_listed(arena), arena)
        self._add_caches(by_kind["callers"], listed=True)

    def _caches_by_kind(self):
        """Returns {kind: [Cache]}, with the kinds of the kernel's kmem_walk_kind_of()."""
        variable, found = self.kernel.variable, {kind: [] for kind in ("quanta", "slabs", "own", "magazines", "callers")}
        kinds = {variable("kmem_slab_cache"): "slabs", **dict.fromkeys(variable("kmem_magazine_caches"), "magazines"),
                 variable("kmem_bufctl_cache"): "own", variable("kmem_hash_cache"): "own"}
        for cache in self._caches:
            is_quantum = cache.structure.flags & constant("KMC_QCACHE")
            found["quanta" if is_quantum else kinds.get(cache.address, "callers")].append(cache)
        return found

    def _is_memory(self, arena):
        base = self.kernel.variable("base_arena")
        while arena and arena.address != base:
            arena = self._by_address.get(arena.structure.parent)
        return arena is not None

    def _has_objects(self, arena):
        return arena is not None and self._is_memory(arena) and arena.structure.quantum >= PAGE

    def _add_source(self, owner, listed, root=0):
        self._put("source", listed, isinstance(owner, Cache), root)
        self.sources.append(owner)
        return len(self.sources) - 1

    def _add_arena(self, arena):
        kinds = enumerators("arena_impl::SegmentKind")
        listed = _is_listed(arena) and self._has_objects(arena)
        number = self._add_source(arena, listed)
        for segment in self.kernel.list_from("arena_impl::Segment", arena.structure.first):
            kind = kinds.get(segment.kind)
            if kind == "kImportedSpan":
                self._put("cover", segment.start)
            elif kind == "kAllocated" and listed:
                self._put("run", segment.start, segment.size, segment.start, 0, segment.size, 1, number, 0, 1)

    def _add_caches(self, caches, listed, arena=None):
        """Adds the objects of caches. `listed`: unreached objects of these caches are listed. `arena`: the caches are quantum caches of this arena,
        which is then the objects' source."""
        for cache in caches:
            if self._has_objects(self._by_address.get(cache.structure.arena)):
                number = self._add_source(arena or cache, listed, self._walkers.get(cache.address, 0))
                self._add_cache(cache, number, bool(arena))

    def _add_cache(self, cache, number, are_pages):
        dead, size = [], cache.structure.object_size
        for slab in (*cache.slabs(), *cache.checked_slabs()):
            gap = cache.structure.checks.gap if slab.structure.checked else slab.structure.colour
            self._put("run", slab.base - gap, slab.size, slab.base, slab.stride, size, slab.count, number,
                      cache.structure.payload, are_pages)
            if not slab.structure.checked and not cache.structure.small:
                dead.append(slab.address)
            dead += slab.free_items()
        for magazine, rounds in cache.magazines():
            dead += [magazine, *cache.rounds(magazine, rounds)]
        if dead:
            self._put("dead", *dead)

    def _note_own_magazines(self, caches):
        """Adds the slab structures and magazines of these caches as dead objects, so that the search does not follow the words in them: a
        stale word in a magazine may point to an object of another cache. The objects of these caches are not in the description."""
        for cache in caches:
            slabs = [] if cache.structure.small else [slab.address for slab in cache.slabs()]
            self._put("dead", *slabs, *(magazine for magazine, _ in cache.magazines()))

    # --- Roots.

    def _roots(self):
        kernel, tasks = self.kernel, all_tasks(self.kernel)
        _check_providers(kernel)
        free_stacks = list(kernel.list_from("FreeStack", kernel.variable("free_stacks"), most=1 << 10))
        memories = [stack.memory for stack in free_stacks]
        self._put("hide", *(task.structure.stack_memory for task in tasks if task.structure.stack_memory), *memories)
        self._put("words", kernel.label("data_start"), kernel.label("not_roots_start"))
        self._put("words", kernel.label("not_roots_end"), kernel.label("boot_stacks"))
        self._running_stacks()
        [virtual] = [arena for arena in self._arenas if arena.address == kernel.variable("kernel_virtual_arena")]
        spans = [tag for tag in kernel.list_from("arena_impl::Segment", virtual.structure.first) if tag.kind == constant("arena_impl::SegmentKind::kSpan")]
        for span in spans:
            self._put("tables", span.start, span.start + span.size)
        for cpu in cpus(kernel):
            if cpu.id > 0:
                for top, size in _own_stacks(kernel, cpu):
                    self._put("mapped", top - size, top)
        size = kernel.constant("kernel_stack_size")
        for task in tasks:
            if not task.cpu and task.state != "dead":
                self._put("stack", task.address, task.structure.context.stack_pointer, task.structure.stack_base + size)
        if memories:
            self._put("object", *memories)

    def _running_stacks(self):
        """Adds roots for each CPU that is executing kernel code: its registers, the stack in use, and the stack that an interrupt has interrupted."""
        values = []
        for cpu in cpus(self.kernel):
            registers = dict(zip(REGISTERS, cpu.registers(REGISTERS), strict=True))
            if registers["cs"] & 3 != 3:
                for name, value in registers.items():
                    self.registers[_LEAST_ADDRESS + 8 * len(values)] = f"register {name} of CPU {cpu.id}"
                    values.append(value)
                for begin, end in stacks_in_use(self.kernel, cpu, registers["rsp"]):
                    self._put("stack", cpu.current, begin, end)
        self._put("registers", _LEAST_ADDRESS, *values)


def _is_listed(arena):
    return not arena.structure.flags & constant("KMC_NOTRACE")


def _own_stacks(kernel, cpu):
    """Returns (top, size) of each stack that belongs to the CPU, not to a task."""
    ist = kernel.constant("ist_stack_size")
    return [(cpu.tables.first_stack, kernel.constant("kernel_stack_size")),
            *((top, ist) for top in cpu.tables.tss.ist if top)]


def stacks_in_use(kernel, cpu, pointer):
    """Yields (begin, end) of each stack that a CPU is using. `pointer` is the CPU's stack pointer. The first stack is the current stack. If the
    current stack is an interrupt stack, the stack that was interrupted follows."""
    task_top, size = cpu.tables.cpu.kernel_stack, kernel.constant("kernel_stack_size")
    stacks = [(task_top, size), *_own_stacks(kernel, cpu)]
    for _ in stacks:
        top = next((top for top, size in stacks if top - size <= pointer <= top), None)
        if top is None:
            return  # the CPU has just entered the kernel and still has the program's stack pointer
        yield pointer, top
        if top in (task_top, cpu.tables.first_stack):
            return
        _, cs, _, pointer, _ = _INTERRUPT_FRAME.unpack(kernel.read(top - _INTERRUPT_FRAME.size, _INTERRUPT_FRAME.size))
        if cs & 3 == 3:
            return


def _walkers(kernel):
    """Returns {address of a cache: offset} for the registered walkers. Each object of the cache has, at this offset, the physical address of a root
    page table. Raises Unreadable if a walker is not AddressSpace::visit_memory."""
    count, symbols = kernel.variable("walker_count", "reach/roots.cc"), kernel.once(Symbols)
    found = {}
    for number, walker in enumerate(kernel.variable("walkers", "reach/roots.cc")):
        if number == count:
            break
        name = (symbols.look_up(walker.walk) or ("?",))[0]
        if name != "AddressSpace::visit_memory":
            raise Unreadable(f"what {name} finds, only the kernel knows: memory_map.py does not")
        found[walker.cache] = Layout.of("AddressSpace").offset("tables_") + Layout.of("PageTables").offset("root_")
    return found


def _check_providers(kernel):
    """Checks that only the scheduler's stacks_provider is registered. Raises Unreadable if there is another provider."""
    for provider in kernel.list_from("ReachProvider", kernel.variable("providers", "reach/roots.cc")):
        if provider.address != kernel.address_of("stacks_provider"):
            name = (kernel.once(Symbols).look_up(provider.roots or provider.hide) or ("?",))[0]
            raise Unreadable(f"what {name} finds, only the kernel knows: memory_map.py does not")
