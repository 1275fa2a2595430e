"""Finds the function, file and line of an address in the DWARF information of an ELF file, and the functions that are inlined at the address.

Calls Debian's libdw (elfutils) through ctypes, because the library is small and ctypes needs no compiler. GNU addr2line is not used, because it
gives most inlined functions the name of the enclosing function.
"""
import ctypes
import functools
import os
import subprocess

LIBRARY = "libdw.so.1"
READ = 0  # DWARF_C_READ
TAG_LEXICAL_BLOCK, TAG_INLINED, TAG_SUBPROGRAM = 0x0B, 0x1D, 0x2E
TAG_CLASS, TAG_STRUCTURE, TAG_UNION, TAG_NAMESPACE = 0x02, 0x13, 0x17, 0x39
AT_COMP_DIR, AT_ABSTRACT_ORIGIN, AT_SPECIFICATION, AT_CALL_FILE, AT_CALL_LINE, AT_LINKAGE_NAME = 0x1B, 0x31, 0x47, 0x58, 0x59, 0x6E


class Die(ctypes.Structure):
    """libdw's Dwarf_Die."""

    _fields_ = [("address", ctypes.c_void_p), ("unit", ctypes.c_void_p), ("abbreviation", ctypes.c_void_p), ("padding", ctypes.c_long)]


class Attribute(ctypes.Structure):
    """libdw's Dwarf_Attribute."""

    _fields_ = [("code", ctypes.c_uint), ("form", ctypes.c_uint), ("value", ctypes.c_void_p), ("unit", ctypes.c_void_p)]


@functools.cache
def library():
    lib = ctypes.CDLL(LIBRARY)
    pointer, address, die, attribute = ctypes.c_void_p, ctypes.c_uint64, ctypes.POINTER(Die), ctypes.POINTER(Attribute)
    for name, result, arguments in (
            ("begin", pointer, [ctypes.c_int, ctypes.c_int]), ("end", ctypes.c_int, [pointer]),
            ("addrdie", pointer, [pointer, address, die]), ("child", ctypes.c_int, [die, die]), ("siblingof", ctypes.c_int, [die, die]),
            ("tag", ctypes.c_int, [die]), ("haspc", ctypes.c_int, [die, address]), ("diename", ctypes.c_char_p, [die]),
            ("attr", pointer, [die, ctypes.c_uint, attribute]), ("attr_integrate", pointer, [die, ctypes.c_uint, attribute]),
            ("formref_die", pointer, [attribute, die]), ("getscopes_die", ctypes.c_int, [die, ctypes.POINTER(die)]),
            ("formstring", ctypes.c_char_p, [attribute]), ("formudata", ctypes.c_int, [attribute, ctypes.POINTER(address)]),
            ("getsrc_die", pointer, [die, address]), ("lineno", ctypes.c_int, [pointer, ctypes.POINTER(ctypes.c_int)]),
            ("linesrc", ctypes.c_char_p, [pointer, pointer, pointer]),
            ("getsrcfiles", ctypes.c_int, [die, ctypes.POINTER(pointer), ctypes.POINTER(ctypes.c_size_t)]),
            ("filesrc", ctypes.c_char_p, [pointer, ctypes.c_size_t, pointer, pointer])):
        function = getattr(lib, f"dwarf_{name}")
        function.restype, function.argtypes = result, arguments
    return lib


def places(path, addresses):
    """Returns {address: [(function, file, line), …]}, inlined functions first. Leaves out addresses that the DWARF information does not
    have. C++ names are demangled."""
    lib = library()
    with open(path, "rb", buffering=0) as file:
        dwarf = lib.dwarf_begin(file.fileno(), READ)
        if not dwarf:
            return {}
        try:
            qualified = {}
            found = {address: place for address in set(addresses) if (place := _place(lib, dwarf, address, qualified))}
        finally:
            lib.dwarf_end(dwarf)
    names = _demangled({name for place in found.values() for name, _, _ in place})
    return {address: [(names[name], file, line) for name, file, line in place] for address, place in found.items()}


def _place(lib, dwarf, address, qualified):
    """Returns [(function, file, line), …] of an address. `qualified`: a cache for _qualified_name()."""
    unit = Die()
    if not lib.dwarf_addrdie(dwarf, address, unit):
        return []
    chain = _functions_at(lib, unit, address, everywhere=False) or _functions_at(lib, unit, address, everywhere=True)
    line = lib.dwarf_getsrc_die(unit, address)
    file, number = b"??", ctypes.c_int()
    if line:
        lib.dwarf_lineno(line, number)
        file = lib.dwarf_linesrc(line, None, None) or file
    number, folder, result = number.value, _string(lib, unit, AT_COMP_DIR), []
    for die in chain:
        name = _string(lib, die, AT_LINKAGE_NAME) or _qualified_name(lib, die, qualified) or b"??"
        result.append((name.decode("utf-8", "replace"), os.path.join(*map(os.fsdecode, (folder, file))), number))
        file, number = _called_at(lib, unit, die)
    return result


def _functions_at(lib, parent, address, everywhere):
    """Returns the functions that contain `address`, the innermost first. `everywhere`: searches also functions that are defined in other functions
    (lambdas), in namespaces and in types, which takes longer."""
    for die in _children(lib, parent):
        tag = lib.dwarf_tag(die)
        code = tag in (TAG_SUBPROGRAM, TAG_INLINED, TAG_LEXICAL_BLOCK)
        if code and lib.dwarf_haspc(die, address) == 1:
            inner = _functions_at(lib, die, address, everywhere=False)
            return inner if tag == TAG_LEXICAL_BLOCK else inner + [die]
        if everywhere and (inner := _functions_at(lib, die, address, everywhere=True)):
            return inner
    return []


def _children(lib, parent):
    die = Die()
    more = lib.dwarf_child(parent, die) == 0
    while more:
        yield die
        following = Die()
        more = lib.dwarf_siblingof(die, following) == 0
        die = following


def _string(lib, die, code):
    attribute = Attribute()
    return lib.dwarf_attr_integrate(die, code, attribute) and lib.dwarf_formstring(attribute) or b""


def _qualified_name(lib, die, known):
    """Returns the name of a function with the enclosing types and namespaces. Used for functions with internal linkage, because they have no
    mangled name. `known` caches the names: {address of the declaration: name}."""
    name, attribute = lib.dwarf_diename(die), Attribute()
    while lib.dwarf_attr(die, AT_ABSTRACT_ORIGIN, attribute) or lib.dwarf_attr(die, AT_SPECIFICATION, attribute):
        declaration = Die()
        if not lib.dwarf_formref_die(attribute, declaration):
            return name
        die = declaration
    if name and die.address not in known:
        known[die.address] = b"::".join([*_scopes(lib, die), name])
    return name and known[die.address]


def _scopes(lib, die):
    """Returns the names of the types and namespaces that contain a declaration, the outermost first."""
    scopes = ctypes.POINTER(Die)()  # the declaration, then its parents
    count = lib.dwarf_getscopes_die(die, scopes)
    names = []
    for scope in scopes[1:count] if count > 0 else []:
        if lib.dwarf_tag(scope) not in (TAG_CLASS, TAG_STRUCTURE, TAG_UNION, TAG_NAMESPACE):
            break
        around = lib.dwarf_diename(scope)
        if around and not around.startswith(b"<"):  # the name of a lambda begins with <
            names.insert(0, around)
    if count > 0:
        _libc().free(scopes)
    return names


@functools.cache
def _libc():
    libc = ctypes.CDLL(None)
    libc.free.restype, libc.free.argtypes = None, [ctypes.c_void_p]
    return libc


def _called_at(lib, unit, die):
    """Returns the (file, line) where the inlined function `die` is called."""
    number, line, files, count = ctypes.c_uint64(), ctypes.c_uint64(), ctypes.c_void_p(), ctypes.c_size_t()
    for code, value in ((AT_CALL_FILE, number), (AT_CALL_LINE, line)):
        attribute = Attribute()
        if lib.dwarf_attr(die, code, attribute):
            lib.dwarf_formudata(attribute, value)
    if lib.dwarf_getsrcfiles(unit, files, count) != 0 or number.value >= count.value:
        return b"??", line.value
    return lib.dwarf_filesrc(files, number.value, None, None) or b"??", line.value


def _demangled(names):
    """Returns {name: demangled C++ name}."""
    names = sorted(names)
    if not names:
        return {}
    output = subprocess.run(["c++filt"], input="".join(f"{name}\n" for name in names), check=True, capture_output=True, text=True).stdout
    return dict(zip(names, output.splitlines()))
