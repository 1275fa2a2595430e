"""The memory of a stopped kernel, decoded by the types of its debugging information.

A Struct is a copy of the memory of one object. Its fields are attributes: ints (pointers and
enumerations too), bytes (arrays of char), Structs and Arrays. A field whose type is a wrapper of the
standard library (std::atomic, std::array) has the value of its contents. Members of base classes, of
anonymous unions, and of structures that C code uses like base classes (_HEADS) are attributes of the
object itself.
"""
import contextlib
import struct

import gdb

PAGE = 4096
_WRAPPERS = ("std::", "ObjectCache<")
_HEADS = ("kmem_cache_head",)  # types of members that C structures use like base classes in C++
_layouts = {}
_types = {}


class Unreadable(Exception):
    """Memory or a type is missing, or memory is inconsistent. The message is one line."""


def forget_types(_event=None):
    """Empties the caches when gdb loads a file, because the cached types may belong to another ELF file."""
    _layouts.clear()
    _types.clear()


gdb.events.new_objfile.connect(forget_types)


def type_of(name):
    """Returns the gdb.Type of this name, which may be in an anonymous namespace. Raises Unreadable."""
    for name_there in (name, f"(anonymous namespace)::{name}"):
        if name not in _types:
            with contextlib.suppress(gdb.error):
                _types[name] = gdb.lookup_type(name_there).strip_typedefs()
    if name not in _types:
        raise Unreadable(f"the kernel's debugging information has no type {name}")
    return _types[name]


def constant(expression):
    """Returns the value of an enumerator or constant of the kernel, from the debugging information. Raises Unreadable."""
    key = ("constant", expression)
    if key not in _types:
        try:
            _types[key] = int(gdb.parse_and_eval(expression))
        except gdb.error as error:
            raise Unreadable(f"the kernel's debugging information has no {expression}: {error}") from error
    return _types[key]


def enumerators(name):
    """Returns {value: name} of an enumeration. The names are without their scopes."""
    return {field.enumval: field.name.rpartition("::")[2] for field in type_of(name).fields()}


def _members(gdb_type):
    """(name, offset, gdb.Type) of the members inside an object."""
    for field in gdb_type.fields():
        if not hasattr(field, "bitpos"):
            continue  # static
        offset, kind = field.bitpos // 8, field.type.strip_typedefs()
        if field.is_base_class or not field.name or kind.name in _HEADS:
            for name, inner, member in _members(kind):
                yield name, offset + inner, member
        else:
            yield field.name, offset, kind


def _unwrapped(gdb_type):
    """Returns the type of the contents if `gdb_type` is a wrapper (_WRAPPERS); otherwise `gdb_type`."""
    gdb_type = gdb_type.strip_typedefs()
    while gdb_type.code == gdb.TYPE_CODE_STRUCT and (gdb_type.name or "").startswith(_WRAPPERS):
        members = [member for member in _members(gdb_type) if member[2].sizeof == gdb_type.sizeof]
        if len(members) != 1:
            break
        gdb_type = members[0][2].strip_typedefs()
    return gdb_type


class Layout:
    """The layout of a type in memory."""

    def __init__(self, gdb_type):
        self.type = gdb_type
        self.size = gdb_type.sizeof
        self.fields = {name: (offset, _Decoder.of(kind)) for name, offset, kind in _members(gdb_type)}

    @staticmethod
    def of(gdb_type):
        """The layout of a structure, by its gdb.Type or name."""
        key = gdb_type if isinstance(gdb_type, str) else str(gdb_type)
        if key not in _layouts:
            _layouts[key] = Layout(_unwrapped(type_of(gdb_type) if isinstance(gdb_type, str) else gdb_type))
        return _layouts[key]

    def offset(self, field):
        return self.fields[field][0]

    def columns(self, *names):
        """Returns a struct.Struct that unpacks these fields of an object. Each field is an integer. `names` are in the order of the fields'
        offsets."""
        pattern, at = "<", 0
        for name in names:
            offset, decoder = self.fields[name]
            pattern += f"{offset - at}x{decoder.word}"
            at = offset + decoder.size
        return struct.Struct(f"{pattern}{self.size - at}x")


class _Decoder:
    """Makes a value from the bytes of a field."""

    _WORDS = {(1, False): "B", (1, True): "b", (2, False): "H", (2, True): "h", (4, False): "I", (4, True): "i", (8, False): "Q", (8, True): "q"}
    _known = {}

    @staticmethod
    def of(gdb_type):
        gdb_type = _unwrapped(gdb_type)
        if gdb_type.code == gdb.TYPE_CODE_ARRAY:
            return _ArrayDecoder(gdb_type)
        if gdb_type.code in (gdb.TYPE_CODE_STRUCT, gdb.TYPE_CODE_UNION):
            return _StructDecoder(gdb_type)
        return _Decoder(gdb_type)

    def __init__(self, gdb_type):
        self.size = gdb_type.sizeof
        signed = gdb_type.code == gdb.TYPE_CODE_INT and gdb_type.is_signed
        self.word = self._WORDS.get((self.size, signed), f"{self.size}s")
        self.unpack = struct.Struct("<" + self.word).unpack_from

    def decode(self, _kernel, data, offset, _address):
        return self.unpack(data, offset)[0]


class _StructDecoder:
    def __init__(self, gdb_type):
        self.type, self.size, self._layout = gdb_type, gdb_type.sizeof, None

    def decode(self, kernel, data, offset, address):
        if not self._layout:
            self._layout = Layout.of(self.type)
        return Struct(kernel, self._layout, address, data, offset)


class _ArrayDecoder:
    def __init__(self, gdb_type):
        self.size = gdb_type.sizeof
        self.element = _Decoder.of(gdb_type.target())
        first, last = gdb_type.range()
        self.count = max(last - first + 1, 0)
        self.is_text = _unwrapped(gdb_type.target()).name == "char"

    def decode(self, kernel, data, offset, address):
        if self.is_text:
            return bytes(data[offset:offset + self.count]).partition(b"\0")[0]
        return Array(kernel, self, address, data, offset)


class Struct:
    """A copy of an object in memory."""

    __slots__ = ("_kernel", "_layout", "address", "_data", "_offset")

    def __init__(self, kernel, layout, address, data, offset=0):
        self._kernel, self._layout, self.address, self._data, self._offset = kernel, layout, address, data, offset

    def __getattr__(self, name):
        try:
            offset, decoder = self._layout.fields[name]
        except KeyError:
            raise Unreadable(f"the kernel's {self._layout.type} has no {name}: is the ELF file that of another version?") from None
        return decoder.decode(self._kernel, self._data, self._offset + offset, self.address + offset)

    def address_of(self, name):
        return self.address + self._layout.offset(name)


class Array:
    """A copy of an array in memory."""

    __slots__ = ("_kernel", "_decoder", "address", "_data", "_offset")

    def __init__(self, kernel, decoder, address, data, offset):
        self._kernel, self._decoder, self.address, self._data, self._offset = kernel, decoder, address, data, offset

    def __len__(self):
        return self._decoder.count

    def __getitem__(self, index):
        if not 0 <= index < self._decoder.count:
            raise IndexError(index)
        at = index * self._decoder.element.size
        return self._decoder.element.decode(self._kernel, self._data, self._offset + at, self.address + at)


class Kernel:
    """The memory of a kernel that is stopped. Caches all memory that it reads, and the results of once()."""

    def __init__(self):
        self._pages, self._made = {}, {}
        self._inferior = gdb.selected_inferior()
        if not self._inferior.is_valid() or not self._inferior.pid:
            raise Unreadable("there is neither a guest nor a core")
        self._check_build_id()

    def _check_build_id(self):
        """Checks that gdb's ELF file has the build id of the kernel in memory; otherwise all addresses would be wrong. Raises Unreadable."""
        start, end = self.label("build_id_note_start"), self.label("build_id_note_end")
        objfile = gdb.current_progspace().objfiles()[0]
        try:
            note = self.read(start, end - start)
        except Unreadable as error:
            raise Unreadable("the kernel's memory is not there: has it not booted yet?") from error
        self.build_id = bytes.fromhex(objfile.build_id or "")
        if not self.build_id or self.build_id not in note:
            raise Unreadable(f"the kernel that runs is not {objfile.filename}: scripts/gdb --kernel takes another")

    def read(self, address, size):
        """Returns the `size` bytes at `address`. Raises Unreadable."""
        first, last = address // PAGE, (address + size - 1) // PAGE
        if first == last:
            offset = address % PAGE
            return self._page(first)[offset:offset + size]
        return b"".join([self._page(number) for number in range(first, last + 1)])[address % PAGE:][:size]

    def _page(self, number):
        page = self._pages.get(number)
        if page is None:
            try:
                page = self._inferior.read_memory(number * PAGE & (1 << 64) - 1, PAGE).tobytes()
            except (gdb.MemoryError, gdb.error, OverflowError) as error:
                raise Unreadable(f"there is no memory at {number * PAGE:#x}") from error
            self._pages[number] = page
        return page

    def word(self, address):
        return int.from_bytes(self.read(address, 8), "little")

    def at(self, gdb_type, address):
        """Returns the Struct of this type at an address. Raises Unreadable."""
        layout = Layout.of(gdb_type)
        return Struct(self, layout, address, self.read(address, layout.size))

    def array(self, gdb_type, address, count):
        """Returns a list of `count` consecutive Structs. Raises Unreadable."""
        layout = Layout.of(gdb_type)
        data = self.read(address, layout.size * count) if count else b""
        return [Struct(self, layout, address + i * layout.size, data, i * layout.size) for i in range(count)]

    def list_from(self, gdb_type, address, link="next", most=1 << 24):
        """Yields the Structs of a linked list that begins at `address`; `link` is the field with the address of the next Struct.
        Raises Unreadable if the list has more than `most` elements, because it may then be circular."""
        for _ in range(most):
            if not address:
                return
            structure = self.at(gdb_type, address)
            yield structure
            address = getattr(structure, link)
        if address:
            raise Unreadable(f"a list of {gdb_type} has no end")

    def variable(self, name, file=None):
        """Returns the value of a variable, decoded like a field of the variable's type. With `file`, finds a static variable of the source file whose
        name ends with `file`. Without `file`, finds a global variable or, if there is none of this name, a static variable of any file. Raises
        Unreadable."""
        decoder, address = self._variable(name, file)
        return decoder.decode(self, self.read(address, decoder.size), 0, address)

    def address_of(self, name, file=None):
        return self._variable(name, file)[1]

    def _variable(self, name, file):
        key = ("variable", name, file)
        if key not in _types:
            symbol = self._symbol(name, file)
            if not symbol:
                raise Unreadable(f"the kernel's debugging information has no variable {name}")
            value = symbol.value()
            _types[key] = _Decoder.of(value.type), int(value.address)
        return _types[key]

    @staticmethod
    def _symbol(name, file):
        hidden = f"(anonymous namespace)::{name}"
        if not file:
            return gdb.lookup_global_symbol(name) or gdb.lookup_static_symbol(hidden) or gdb.lookup_static_symbol(name)
        found = (symbol for which in (hidden, name) for symbol in gdb.lookup_static_symbols(which) if symbol.symtab.filename.endswith(file))
        return next(found, None)

    def once(self, make, *arguments):
        """Returns make(kernel, *arguments). Calls make only once for the same arguments, and caches the result."""
        key = (make, *arguments)
        if key not in self._made:
            self._made[key] = make(self, *arguments)
        return self._made[key]

    def constant(self, name):
        """Returns the value of a constant of kern/arch/x86_64/debugger_constants.cc."""
        return constant(f"'(anonymous namespace)::debugger_constants'.{name}")

    def label(self, name):
        """Returns the address of a symbol of the linker script."""
        return constant(f"(unsigned long)&{name}")
