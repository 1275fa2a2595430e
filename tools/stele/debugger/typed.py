"""Names words in memory, such as `processes.head` or `.fds of Process 0x…`, by the types in the
debugging information.

The type of an object comes from the variable of its cache (ObjectCache<Chan>). If the cache has no such
variable, the type comes from the object's pointer to virtual functions. The name of a word contains the
names of all fields that enclose the word. It leaves out the fields of standard classes (std::atomic,
std::array), and the pointer in a Ref or an ObjectCache.
"""
import re
import struct

import gdb

from stele.debugger.caches import all_caches, slab_of
from stele.debugger.memory import Unreadable, type_of
from stele.debugger.symbols import Symbols
from stele.debugger.tasks import all_tasks

_RECORDS = (gdb.TYPE_CODE_STRUCT, gdb.TYPE_CODE_UNION)
_POINTERS = (gdb.TYPE_CODE_PTR, gdb.TYPE_CODE_REF)
# For each of the allocator's own caches, which have no ObjectCache: the type of its objects.
_OWN = {"kmem_cache": "struct kmem_cache", "arena": "struct arena", "kmem_slab": "struct kmem_slab", "kmem_bufctl": "struct kmem_bufctl"}
_ANONYMOUS = "(anonymous namespace)::"


def plain(name):
    """Returns a C++ name without "(anonymous namespace)::"."""
    return name.replace(_ANONYMOUS, "")


def _is_wrapper(gdb_type):
    return re.match(r"(std::|Ref<|ObjectCache<)", plain(gdb_type.name or "")) is not None


def field_at(gdb_type, offset):
    """Returns the name of the field at `offset` in an object of the type, such as ".fds.slots[3]"; "" if the field there has no name (the type is a
    number or a pointer, for example); None if there is no field."""
    found = _best(gdb_type, offset)
    return found[1] if found else None


def _best(gdb_type, offset):
    """Returns (True if the field at `offset` is a pointer, name of the field); None if there is no field. If members of a union overlap, prefers a
    pointer."""
    gdb_type = gdb_type.strip_typedefs()
    if gdb_type.code == gdb.TYPE_CODE_ARRAY:
        return _in_array(gdb_type, offset)
    if gdb_type.code not in _RECORDS:
        return (gdb_type.code in _POINTERS, "") if offset < gdb_type.sizeof and offset % 8 == 0 or offset == 0 else None
    best = None
    for field in gdb_type.fields():
        if not hasattr(field, "bitpos"):
            continue  # static
        start, kind = field.bitpos // 8, field.type.strip_typedefs()
        flexible = kind.code == gdb.TYPE_CODE_ARRAY and kind.sizeof == 0
        if offset < start or offset >= start + kind.sizeof and not flexible:
            continue
        inner = _best(kind, offset - start)
        if inner and (best is None or inner[0] and not best[0]):
            hidden = field.is_base_class or not field.name or field.artificial or _hides(gdb_type, kind, start)
            best = inner[0], ("" if hidden else f".{field.name}") + inner[1]
    return best


def _hides(gdb_type, kind, start):
    """True if the name of a field of `gdb_type` is left out, because `gdb_type` is a wrapper. `kind` and `start` are the field's type and offset."""
    name = plain(gdb_type.name or "")
    return name.startswith("std::") or _is_wrapper(gdb_type) and start == 0 and kind.code in _POINTERS


def _in_array(gdb_type, offset):
    element = gdb_type.target().strip_typedefs()
    if not element.sizeof:
        return None
    inner = _best(element, offset % element.sizeof)
    return (inner[0], f"[{offset // element.sizeof}]{inner[1]}") if inner else None


class Names:
    """Finds the names of words and objects of a kernel."""

    def __init__(self, kernel):
        self.kernel = kernel
        self._types, self._variables = {}, {}
        start, end = kernel.label("data_start"), kernel.label("boot_stacks")
        self._static = range(start, end)
        self._caches = {cache.address: cache for cache in all_caches(kernel)}

    # --- Objects.

    def type_of(self, owner, item):
        """Returns the gdb.Type of the object `item` of a cache or arena; None if the type is unknown."""
        if owner.address not in self._types:
            self._types[owner.address] = self._type_of_cache(owner)
        return self._types[owner.address] or self._type_of_virtual(owner, item)

    def _type_of_cache(self, owner):
        if owner.address not in self._caches:
            return None
        if owner.name in _OWN:
            return type_of(_OWN[owner.name])
        for address in self._words_that_are(owner.address):
            symbol = self.static(address)[0]
            name = plain(str(symbol.type.strip_typedefs().name)) if symbol else ""
            if name.startswith("ObjectCache<"):
                return symbol.type.strip_typedefs().template_argument(0)
        return None

    def _words_that_are(self, word):
        """Yields the addresses in static data at which the value `word` is stored."""
        data, pattern, at = self.kernel.once(_static_data), struct.pack("<Q", word), -1
        while (at := data.find(pattern, at + 1)) >= 0:
            if at % 8 == 0:
                yield self._static.start + at

    def _type_of_virtual(self, owner, item):
        """Returns the type of an object whose first word points to a table of virtual functions; None if the first word does not."""
        table = self.kernel.word(item)
        if owner.address not in self._caches or not self.kernel.label("rodata_start") <= table < self.kernel.label("data_end"):
            return None
        if table not in self._types:
            name = re.match(r"vtable for (.+) \+ 16 in section ", gdb.execute(f"info symbol {table:#x}", to_string=True))
            try:
                found = type_of(name[1]) if name else None
            except Unreadable:
                found = None
            self._types[table] = found
        return self._types[table]

    def object(self, owner, item):
        """Returns the name of an object: "Process 0x…"; "kmalloc_64 0x…" if the type is not known."""
        gdb_type = self.type_of(owner, item)
        return f"{plain(gdb_type.name) if gdb_type else owner.name} {item:#x}"

    def at(self, address):
        """Returns the name of the object that begins at the address."""
        slab = slab_of(self.kernel, address)
        return self.object(slab.cache, address) if slab else f"{address:#x}"

    def field(self, place):
        """Returns the name of a word in an object: ".fds[3]"; "+0x18" if no field is known there."""
        gdb_type, offset = self.type_of(place.owner, place.item), place.address - place.item
        count_of = gdb_type.sizeof if gdb_type else 0
        found = field_at(gdb_type, offset) if gdb_type and (offset < count_of or _is_open(gdb_type)) else None
        return found if found else f"+{offset:#x}"

    # --- Everything else.

    def variable(self, address):
        """Returns the name of a word of static data: "processes.head"."""
        symbol, name, offset = self.static(address)
        field = field_at(symbol.type, offset) if symbol else None
        return name + (f"+{offset:#x}" if field is None and offset else field or "")

    def static(self, address):
        """Returns (gdb.Symbol of the variable or None, name of the variable, offset in it) for an address of static data."""
        if address not in self._variables:
            self._variables[address] = self._look_up(address)
        return self._variables[address]

    def _look_up(self, address):
        text = gdb.execute(f"info symbol {address:#x}", to_string=True)
        found = re.match(r"(.+?)(?: \+ (\d+))? in section ", text)
        if not found:
            return None, f"data {address:#x}", 0
        name, offset = found[1], int(found[2] or 0)
        symbols = [gdb.lookup_global_symbol(name), *gdb.lookup_static_symbols(name)]
        for symbol in symbols:
            if symbol and _is_variable(symbol) and int(symbol.value().address) == address - offset:
                return symbol, plain(name), offset
        return None, plain(name), offset

    def is_static(self, address):
        return address in self._static

    def root(self, place):
        """Returns the name of a reach.Location that is in no object: "processes.head", "0x…, the kernel stack of task 6 sh, …"."""
        if place.register:
            return place.register
        if place.address in self._static:
            return self.variable(place.address)
        task = self.task_of(place)
        if not task:
            return f"{place.address:#x}, the stack of a CPU"
        top = task.structure.stack_base + self.kernel.constant("kernel_stack_size")
        frame = task.frame_at(place.address)
        found = self.kernel.once(Symbols).look_up(frame.address - 1) if frame else None
        return f"{place.address:#x}, the kernel stack of {task}, {top - place.address:#x} bytes below its top{f', in {found[0]}' if found else ''}"

    def task_of(self, place):
        """Returns the Task whose kernel stack contains the reach.Location; None if there is none."""
        size = self.kernel.constant("kernel_stack_size")
        return next((task for task in self.kernel.once(all_tasks) if 0 <= place.address - task.structure.stack_base < size), None)

    def place(self, place):
        """Returns a reach.Location as text."""
        if not place.owner:
            return ("variable " if place.address in self._static else "" if place.register else "at ") + self.root(place)
        field = self.field(place)
        at = "" if field.startswith("+") else f" at +{place.address - place.item:#x}"
        return f"{field} of {self.object(place.owner, place.item)}{at}"


def _is_variable(symbol):
    """True if the symbol is a variable or the declaration of a variable. gdb gives the declaration until it has read the compilation unit that
    defines the variable."""
    return symbol.is_variable or symbol.addr_class == gdb.SYMBOL_LOC_UNRESOLVED


def _is_open(gdb_type):
    """True if the last member of the type is an array of unspecified length."""
    fields = [field for field in gdb_type.fields() if hasattr(field, "bitpos")]
    return bool(fields) and fields[-1].type.strip_typedefs().code == gdb.TYPE_CODE_ARRAY and fields[-1].type.strip_typedefs().sizeof == 0


def _static_data(kernel):
    start = kernel.label("data_start")
    return kernel.read(start, kernel.label("boot_stacks") - start)
