"""Explains what is at an address.

For objects of page-backed caches, the page's descriptor points to the slab. Other memory of the direct map belongs to a segment of an arena, or to
an object of a quantum cache of an arena. Several arenas may have a segment that contains the address, because arenas import memory from other
arenas, in chains that begin at base_arena. The explanation is about the last arena of the chain, because the segment of this arena is the smallest.
"""
import gdb

from stele.debugger.arenas import all_arenas
from stele.debugger.caches import Slab, all_caches, page_of, slab_of
from stele.debugger.memory import Layout, constant
from stele.debugger.source import backtrace_lines, code_line
from stele.debugger.tasks import Frame, all_tasks, cpus
from stele.debugger.traces import Traces



def whatis(kernel, address):
    """Yields the lines of the explanation. Further facts follow the first line, indented."""
    first, *more = _lines(kernel, address)
    yield f"{address:#x} is {first}"
    yield from more


def _lines(kernel, address):
    if address < kernel.constant("user_end"):
        return ["an address of user space"]
    if kernel.label("image_start") <= address < kernel.label("image_end"):
        return [_in_image(kernel, address)]
    page = page_of(kernel, address)
    if page:
        return list(_in_direct_map(kernel, address, page))
    return list(_in_virtual_range(kernel, address))


def _into(address, start, what):
    """Returns "0x10 bytes into WHAT"; "WHAT" if the address is its beginning."""
    return f"{address - start:#x} bytes into {what}" if address > start else what


# --- The kernel's image.

def _in_image(kernel, address):
    if kernel.label("text_start") <= address < kernel.label("text_end"):
        return "code: " + code_line(kernel, address)
    for cpu in kernel.once(cpus):
        stack = _cpu_stack(kernel, cpu, address)
        if stack:
            return stack
    for text in gdb.execute(f"info symbol {address:#x}", to_string=True).splitlines():
        name, found, section = text.partition(" in section ")
        if found:
            cache = next((f", the cache {cache.name}" for cache in kernel.once(all_caches) if cache.address == address), "")
            return f"data: {name.replace(' + ', '+')} in {section.partition(' ')[0]}{cache}"
    return "in the kernel's image"


# --- The direct map.

def _in_direct_map(kernel, address, page):
    physical = address - kernel.constant("direct_map_base")
    image = physical + kernel.constant("image_base")
    if kernel.label("image_start") <= image < kernel.label("image_end"):
        yield f"the direct map of {image:#x}, " + _in_image(kernel, image)
        return
    slab = slab_of(kernel, address)
    if slab:
        yield from _in_slab(kernel, slab, address)
        return
    for task in kernel.once(all_tasks):
        base = task.structure.stack_memory
        if base and base <= address < base + kernel.constant("kernel_stack_size"):
            yield f"the direct map of {task.structure.stack_base + address - base:#x}, the kernel stack of {task}"
            return
    descriptors, size = kernel.variable("descriptors", "pages.cc"), Layout.of("Page").size
    frame = (address - descriptors) // size
    if 0 <= frame < kernel.variable("frames", "pages.cc"):
        yield f"the descriptor of the page at {kernel.constant('direct_map_base') + frame * kernel.constant('page_size'):#x}"
        return
    yield from _in_arenas(kernel, address, page)


def _in_arenas(kernel, address, page):
    arenas = kernel.once(all_arenas)
    by_address = {arena.address: arena for arena in arenas}

    def distance(arena):
        """Returns the number of imports between base_arena and the arena; None if the arena does not get its memory from base_arena, because the
        numbers in such an arena are not addresses of the direct map."""
        steps = 0
        while arena and arena.structure.source:
            arena, steps = by_address.get(arena.structure.source), steps + 1
        return steps if arena and arena.address == kernel.variable("base_arena") else None

    found = [(distance(arena), arena) for arena in arenas]
    for _, arena in sorted(((steps, arena) for steps, arena in found if steps is not None), key=lambda item: -item[0]):
        lines = list(_in_arena(kernel, arena, address, page))
        if lines:
            yield from lines
            return
    yield "memory of no arena"


def _in_arena(kernel, arena, address, page):
    segment = arena.segment_at(address)
    if not segment:
        return
    segment, kind = segment
    if kind == "kFree":
        yield f"free memory of the arena {arena.name}: {_segment(segment)}"
        return
    for cache in arena.quantum_caches():
        slab = cache.slab_around(address)
        if slab:
            yield from _in_quantum_cache(kernel, arena, slab, address, page)
            return
    holder = _large_kmalloc(kernel, segment.start)
    yield _into(address, segment.start, f"an allocation from the arena {arena.name}, {_segment(segment)}") + _user_page(page) + holder
    if not holder:
        yield from _metadata(kernel, arena, segment)
    yield from _allocated_by(kernel, arena, segment.start)


def _metadata(kernel, arena, segment):
    """Yields a line if the segment holds boundary tags, or if an arena that forwards all requests may have got the segment."""
    arenas = kernel.once(all_arenas)
    if any(segment.start <= tag.address < segment.start + segment.size for other in arenas for tag in other.segments()):
        yield "  it holds boundary tags"
        return
    through = [other.name for other in arenas if other.structure.source == arena.address and other.structure.forwards]
    if through:
        yield f"  perhaps allocated through {', '.join(through)}, which does not track allocations"


def _segment(segment):
    return f"{segment.start:#x} with {segment.size} bytes"


def _large_kmalloc(kernel, start):
    page = page_of(kernel, start)
    return f": a kmalloc of {page.large_pages & ~constant('kPagesOfBytes')} pages" if page and page.large_pages else ""


def _user_page(page):
    if not page.mappings:
        return ""
    owner = "a file" if page.mappings & constant("'(anonymous namespace)::page_of_file'") else "programs"
    mappings = page.mappings & constant("'(anonymous namespace)::page_mappings'")
    return f": a page of {owner}, which {mappings} address space{' maps' if mappings == 1 else 's map'}"


def _in_quantum_cache(kernel, arena, slab, address, page):
    item = slab.object_at(address)
    if item is None:
        yield f"in a slab of {slab.cache.name}, a quantum cache of the arena {arena.name}, behind its objects"
        return
    state, live = _state(slab, item)
    what = f"the allocation {item:#x} from the arena {arena.name}, {slab.stride} bytes by way of {slab.cache.name}"
    yield f"{_into(address, item, what)}: {state}" + (_user_page(page) + _large_kmalloc(kernel, item) if live else "")
    if live:
        yield from _allocated_by(kernel, arena, item)


# --- Objects.

def _in_slab(kernel, slab, address):
    cache, item = slab.cache, slab.object_at(address)
    if item is None:
        structure = Layout.of("struct checked_slab" if slab.structure.checked else "struct kmem_slab").size
        if slab.address <= address < slab.address + structure + (slab.count if slab.structure.checked else 0):
            yield _into(address, slab.address, f"the slab structure {slab.address:#x} of {_slab(slab)}")
        else:
            where = "before the first object" if address < slab.base else "behind an object" if slab.structure.checked else "behind the last object"
            yield f"in {_slab(slab)}, {where}"
        return
    state, live = _state(slab, item)
    yield f"{_into(address, item, f'the object {item:#x} of {cache.name}, which has {cache.structure.object_size} bytes')}: {state}"
    yield f"  in {_slab(slab)}"
    if live:
        yield from _meaning(kernel, cache, item)
    if slab.structure.checked:
        yield from _audit(kernel, slab, item)
    elif live:
        yield from _allocated_by(kernel, cache, item)


def _slab(slab):
    words = "the checked slab" if slab.structure.checked else "the slab"
    return f"{words} {slab.base - slab.structure.colour:#x} of {slab.cache.name} with {slab.structure.out} of {slab.count} objects out"


_CHECKED_STATES = {"FREE": "free, in its slab", "TAKEN": "being allocated", "ALLOCATED": "live", "ALLOCATED_DAMAGED": "live, and reported as damaged",
                   "FREEING": "being freed", "FREEING_DAMAGED": "being freed, and reported as damaged", "QUARANTINED": "in quarantine"}


def _state(slab, item):
    """Returns (state of an object as text, is the object live?)."""
    if slab.structure.checked:
        state = slab.state_of(item)
        return _CHECKED_STATES.get(state, state), state.startswith("ALLOCATED")
    if slab.is_free(item):
        return "free, in its slab", False
    idle = slab.cache.idle_in(item)
    return (f"free, in {idle}", False) if idle else ("live", True)


def _meaning(kernel, cache, item):
    """Explains an object of the kernel's own caches: yields a line if it is a slab structure, a bufctl, a task or a cache."""
    if cache.address == kernel.variable("kmem_slab_cache"):
        structure = kernel.at("struct kmem_slab", item)
        of = next((other for other in kernel.once(all_caches) if other.address == structure.cache), None)
        if of:
            yield f"  it is the slab structure of {_slab(Slab(of, structure))}"
    elif cache.address == kernel.variable("kmem_bufctl_cache"):
        bufctl = kernel.at("struct kmem_bufctl", item)
        yield f"  it is a bufctl of the slab structure {bufctl.slab:#x}"
    elif cache.address == kernel.variable("task_cache"):
        yield from (f"  it is {task}" for task in kernel.once(all_tasks) if task.address == item)
    else:
        yield from (f"  it is the cache {other.name}" for other in kernel.once(all_caches) if other.address == item)


# --- Allocations.

def _allocated_by(kernel, owner, item):
    traces = kernel.once(Traces)
    record = traces.record_of(owner, item)
    if not record:
        if owner.structure.trace:
            span = "" if owner.structure.has("object_size") else "a span of another arena or a cache, "
            yield f"  it has no record: {span}allocated before its trace began, filtered or dropped"
        elif not owner.structure.flags & constant("KMC_NOTRACE"):
            yield f"  its allocation was not traced: echo start > #mem/kmemtrace/{owner.name}"
        return
    yield (f"  allocated by {traces.context_name(record.context)} {traces.now - record.time // 1_000_000} ms ago on CPU {record.cpu}, "
           f"{record.size} bytes, mark {record.mark}{', not a leak' if record.not_leak else ''}")
    if record.stack:
        yield from backtrace_lines(kernel, [Frame(frame) for frame in traces.stacks[record.stack].frames])
    if record.user_stack:
        path = traces.contexts[record.context].path if record.context else "?"
        yield from (f"    {frame:016x} [{path}]" for frame in traces.stacks[record.user_stack].frames)


def _audit(kernel, slab, item):
    layout = Layout.of("struct audit")
    audit = kernel.at("struct audit", item + slab.stride - layout.size)
    for words, place in (("allocated", audit.allocated), ("freed", audit.freed)):
        if not place.time and not place.depth:
            continue
        name = place.name.decode("utf-8", "replace")
        who = f"irq {name}" if place.interrupt else f"pid {place.pid} {name}" if place.pid else f"task {name}"
        size = f", {audit.requested} bytes" if words == "allocated" else ""
        yield f"  {words} by {who} {place.time} ms after boot on CPU {place.cpu}{size}"
        yield from backtrace_lines(kernel, [Frame(kernel.constant("image_base") + place.frames[i]) for i in range(place.depth)])


# --- The kernel's virtual range.

def _in_virtual_range(kernel, address):
    size, guard = kernel.constant("kernel_stack_size"), kernel.constant("page_size")
    for task in kernel.once(all_tasks):
        base = task.structure.stack_base
        if base <= address < base + size:
            yield f"the kernel stack of {task}, {base + size - address:#x} bytes below its top"
            return
        if base - guard <= address < base:
            yield f"the guard page below the kernel stack of {task}"
            return
    for cpu in kernel.once(cpus):
        stack = _cpu_stack(kernel, cpu, address)
        if stack:
            yield stack
            return
    free = kernel.variable("free_stacks")
    for structure in kernel.list_from("FreeStack", free, most=1 << 10):
        if structure.address - guard <= address < structure.address + size:
            yield "a kernel stack that waits for the next task"
            return
    for arena in kernel.once(all_arenas):
        if arena.address != kernel.variable("kernel_virtual_arena"):
            continue
        found = arena.segment_at(address)
        if found and found[1] == "kAllocated":
            mapped = "" if kernel.can_read(address) else ", where nothing is mapped"
            yield _into(address, found[0].start, f"an allocation from the arena {arena.name}, {_segment(found[0])}") + mapped
            yield from _allocated_by(kernel, arena, found[0].start)
            return
    yield "nothing" if not kernel.can_read(address) else "mapped, by an unknown owner"


def _cpu_stack(kernel, cpu, address):
    """Returns the name of the stack of this CPU that contains the address; None if there is none."""
    top, size = cpu.tables.first_stack, kernel.constant("kernel_stack_size")
    if top - size <= address < top:
        return f"the stack that CPU {cpu.id} began on, its idle task's, {top - address:#x} bytes below its top"
    size = kernel.constant("ist_stack_size")
    names = {value: name.removeprefix("kIst") for name, value in ((n, constant(n)) for n in ("kIstDoubleFault", "kIstNmi", "kIstMachineCheck"))}
    for number, name in names.items():
        top = cpu.tables.tss.ist[number - 1]
        if top - size <= address < top:
            return f"the stack of CPU {cpu.id} for {name}, {top - address:#x} bytes below its top"
    return None
