"""What pointers point to, by the types in the debugging information. So an object without a cache of its own gets a type: the type of the pointer by
which it was reached."""
from dataclasses import dataclass

import gdb

from stele.debugger.typed import field_at, plain

_RECORDS = (gdb.TYPE_CODE_STRUCT, gdb.TYPE_CODE_UNION)
_NODE = "ListNode"


@dataclass
class Shape:
    """The contents of an object: one `type`, or an array of it. `node`: offset of the ListNode by which the object was reached; None if it was not
    reached by one."""

    type: object
    is_array: bool = False
    node: int = None

    @property
    def name(self):
        return plain(str(self.type.name or self.type)) + ("[]" if self.is_array else "")

    def field(self, offset):
        """Returns the name of the word at `offset`; None if no field is known there."""
        if not self.is_array:
            return field_at(self.type, offset)
        index, inner = divmod(offset, self.type.sizeof)
        field = field_at(self.type, inner)
        return None if field is None else f"[{index}]{field}"


@dataclass
class Word:
    """The word at an offset of a type. `type`: its type. `list`: the type of the innermost List around it, or None; `list_name`: the name of this List
    as a field."""

    type: object
    list: object = None
    list_name: str = ""


def word_at(gdb_type, offset, name="", of_list=None, list_name=""):
    """Returns the Word at `offset`, which is a multiple of eight; None if there is none. `name`: the name of the field `gdb_type`."""
    gdb_type = gdb_type.strip_typedefs()
    if gdb_type.code == gdb.TYPE_CODE_ARRAY:
        element = gdb_type.target().strip_typedefs()
        if not element.sizeof:
            return None
        return word_at(element, offset % element.sizeof, f"{name}[{offset // element.sizeof}]", of_list, list_name)
    if gdb_type.code not in _RECORDS:
        return Word(gdb_type, of_list, list_name) if offset == 0 else None
    if (gdb_type.name or "").startswith("List<"):
        of_list, list_name = gdb_type, name
    best = None
    for field in gdb_type.fields():
        if not hasattr(field, "bitpos"):
            continue  # static
        start, kind = field.bitpos // 8, field.type.strip_typedefs()
        if start <= offset < start + kind.sizeof:
            inner = word_at(kind, offset - start, name if field.is_base_class or not field.name else f"{name}.{field.name}", of_list, list_name)
            if inner and (best is None or _is_pointer(inner.type) and not _is_pointer(best.type)):
                best = inner
    return best


def _is_pointer(gdb_type):
    return gdb_type.code in (gdb.TYPE_CODE_PTR, gdb.TYPE_CODE_REF)


def pointee(word, holder, offset, into, size):
    """Returns the Shape of the object to which a Word points, which lies at `offset` in an object of the Shape `holder` (None for a static word); None
    if it is unknown. The pointer leads `into` so many bytes of the object. `size`: bytes of the object that were asked for; None if unknown."""
    if not word or not _is_pointer(word.type):
        return None
    target = word.type.target().strip_typedefs()
    if target.name == _NODE:
        if word.list:
            element = word.list.template_argument(0).strip_typedefs()
        elif holder and holder.node is not None and holder.node <= offset < holder.node + target.sizeof:
            element = holder.type
        else:
            return None
        return Shape(element, node=into) if into + target.sizeof <= element.sizeof and _fits(element, size) else None
    if into or not target.sizeof or target.code == gdb.TYPE_CODE_FUNC or target.code == gdb.TYPE_CODE_VOID:
        return None
    is_scalar = target.code not in _RECORDS
    if is_scalar and target.sizeof < 8:
        return None
    is_array = is_scalar or size is not None and size >= 2 * target.sizeof and size % target.sizeof == 0
    return Shape(target, is_array) if is_array or _fits(target, size) else None


def _fits(gdb_type, size):
    return size is None or gdb_type.sizeof <= size
