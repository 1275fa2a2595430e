"""The layout of #mem/tracedump: parses the structures, enumerations and counters in kern/abi/tracedump.h, so that host tools have the same
layout as the kernel. tests/host/tracedump_reader_test.py compares the parsed layout with a compiler's.
"""
import ast
import pathlib
import re
import struct
from collections import namedtuple

HEADER = pathlib.Path(__file__).resolve().parents[2] / "kern/abi/tracedump.h"
PREFIX = "abi_tracedump_"
_FORMATS = {"uint8_t": "B", "uint16_t": "H", "uint32_t": "I", "uint64_t": "Q"}


class AbiError(Exception):
    """The header has text that this module does not understand. The message is one line."""


class Layout:
    """The layout of a structure. `Item` is the class of its contents: a named tuple of the fields. The default of a field is 0, or b"" for bytes."""

    def __init__(self, name, fields):
        self.struct = struct.Struct("<" + "".join(code for _, code in fields))
        self.size = self.struct.size
        self.fields = tuple(field for field, _ in fields)
        self.Item = namedtuple(f"{name.capitalize()}Item", self.fields, defaults=[b"" if code.endswith("s") else 0 for _, code in fields])

    def pack(self, *values, **named):
        return self.struct.pack(*self.Item(*values, **named))

    def unpack_from(self, data, at=0):
        return self.Item._make(self.struct.unpack_from(data, at))

    def iter_unpack(self, data):
        return map(self.Item._make, self.struct.iter_unpack(data))


class Abi:
    """The contents of the header. `layouts`: {name of a structure without PREFIX: Layout}; `enums`: {name: {enumerator: value}}; `constants`:
    {name: value}; `counters`: names in order."""

    def __init__(self, text):
        text = re.sub(r"/\*.*?\*/", " ", text, flags=re.DOTALL).replace("\\\n", " ")
        self.constants = {name: int(value, 0) for name, value in re.findall(r"^#define (ABI_\w+) (\d\w*)\s*$", text, re.MULTILINE)}
        self.magic = ast.literal_eval("b" + re.search(r'^#define ABI_TRACEDUMP_MAGIC (".*")', text, re.MULTILINE)[1])
        counters = re.search(r"^#define ABI_TRACEDUMP_COUNTERS\(HOT, COLD, DERIVED\)(.*)$", text, re.MULTILINE)
        if not counters:
            raise AbiError(f"{HEADER}: no list of counters")
        self.counters = tuple(re.findall(r"\b(?:HOT|COLD|DERIVED)\((\w+)\)", counters[1]))
        self.enums = {name: {key.removeprefix(PREFIX.upper()).lower(): int(value) for key, value in re.findall(r"(\w+) = (\d+)", body)}
                      for name, body in re.findall(rf"enum {PREFIX}(\w+) \{{(.*?)\}}", text, re.DOTALL)}
        self.layouts = {name: Layout(name, [field for line in body.split("\n") for field in self._fields(line)])
                        for name, body in re.findall(rf"struct {PREFIX}(\w+) \{{(.*?)\n\}}", text, re.DOTALL)}
        sizes = {name: int(size) for name, size in re.findall(rf"ABI_TRACEDUMP_SIZE\({PREFIX}(\w+), (\d+)\)", text)}
        if sizes != {name: layout.size for name, layout in self.layouts.items()}:
            raise AbiError(f"{HEADER}: structures of {sizes} bytes were read as {({name: layout.size for name, layout in self.layouts.items()})}")

    def _fields(self, line):
        """Returns [(name, struct format)] of the fields in a line of a structure."""
        line = line.strip()
        if not line:
            return []
        if line.startswith("ABI_TRACEDUMP_COUNTERS("):
            return [(name, "Q") for name in self.counters]
        match = re.fullmatch(r"(uint\d+_t) (\w+)(?:\[(\w+)\])?;", line)
        if not match:
            raise AbiError(f"{HEADER}: not understood: {line}")
        code, name, count = _FORMATS[match[1]], match[2], match[3]
        if count is None:
            return [(name, code)]
        count = self.constants[count] if count in self.constants else int(count)
        return [(name, f"{count}s")] if code == "B" else [(f"{name}_{i}", code) for i in range(count)]


ABI = Abi(HEADER.read_text(encoding="utf-8"))
