#!/usr/bin/env python3
"""Reads #mem/tracedump, the binary dump of all traces (docs/tracedump.md, kern/abi/tracedump.h).

    tools/stele/tracedump.py [--kernel ELF] FILE     prints it as text, in the form of #mem/kmemtrace/NAME but with every object
"""
import argparse
import bisect
import math
import pathlib
import struct
import sys
from dataclasses import dataclass, field

if __name__ == "__main__":
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from stele import ksyms  # noqa: E402

MAGIC = b"\x89STELE\r\n"
VERSION = 3
SOURCES, CONTEXTS, STACKS, FRAMES, STRINGS, RECORDS = range(1, 7)
HEADER = struct.Struct("<8sIIIIQQQQII32sQQ")
SECTION = struct.Struct("<IIQQII")
SOURCE = struct.Struct("<IIIIQQQQIIII15Q")
CONTEXT = struct.Struct("<IIIIIIII32s")
STACK = struct.Struct("<IIQII")
FRAME = struct.Struct("<Q")
RECORD = struct.Struct("<QQQIIIHBB")

COUNTERS = ("seen", "recorded", "dropped", "filtered", "freed", "cleared", "live", "bytes", "untracked", "unmatched", "stacks_lost",
            "contexts_lost", "truncated", "estimated_bytes", "estimated_objects")
SOURCE_KINDS = {1: "cache", 2: "arena", 3: "probe", 4: "references"}
STATES = {1: "running", 2: "stopped"}
CONTEXT_KINDS = {1: "task", 2: "process", 3: "irq"}
STACK_KINDS = {1: "kernel", 2: "user"}
NO_LIMIT = (1 << 64) - 1


class TraceDumpError(Exception):
    """The bytes are not a dump, or one of a version that is not known."""


@dataclass(frozen=True)
class Context:
    id: int
    kind: str  # task, process, irq
    pid: int
    name: str
    path: str
    build_id: str  # hexadecimal; "" if it is not known

    def __str__(self):
        return f"pid {self.pid} {self.name}" if self.kind == "process" else f"{self.kind} {self.name}"


@dataclass(frozen=True)
class Stack:
    id: int
    kind: str  # kernel, user
    frames: tuple  # return addresses, innermost first


@dataclass(frozen=True, slots=True)
class Record:
    object: int
    size: int
    time: int  # nanoseconds since boot
    stack: int
    context: int
    mark: int
    cpu: int
    not_leak: bool = False  # the kernel has declared that the object stays
    user_stack: int = 0  # of the system call's or fault's caller; 0: none


@dataclass
class Source:
    """The trace of one cache, arena or kind of references, or what a session of probes has outstanding."""

    name: str
    kind: str  # cache, arena, probe, references
    state: str  # running, stopped
    zombie: bool
    object_size: int
    options: dict  # depth; min, max, pid, sample if they are set
    mark: int
    stacks: int
    counters: dict  # seen, recorded, …: numbers
    records: list = field(default_factory=list)

    def weight(self, record):
        """How many allocations of its size the record stands for: 1 unless the trace is sampled."""
        rate = self.options.get("sample", 0)
        return 1.0 if not rate or not record.size else -1.0 / math.expm1(-record.size / rate)

    def broken_identities(self):
        """The identities that do not hold, as text; empty in every true dump."""
        c = self.counters
        checks = {"seen = recorded + dropped + filtered": c["seen"] == c["recorded"] + c["dropped"] + c["filtered"],
                  "recorded = freed + cleared + live": c["recorded"] == c["freed"] + c["cleared"] + c["live"],
                  "live = number of records": c["live"] == len(self.records),
                  "bytes = sum of the records": c["bytes"] == sum(record.size for record in self.records),
                  "stacks = those of the records": self.stacks == len({r.stack for r in self.records} - {0})}
        return [identity for identity, holds in checks.items() if not holds]


class TraceDump:
    """A whole dump: sources, contexts and stacks by their ids, and when and by which kernel it was taken."""

    def __init__(self, data):
        if len(data) < HEADER.size or data[:len(MAGIC)] != MAGIC:
            raise TraceDumpError("not a trace dump")
        (_, version, header_size, section_header_size, sections, self.size, self.time, self.memory_limit, self.memory_used,
         build_id_size, self.commands, build_id, self.stacks_unnamed, self.contexts_unnamed) = HEADER.unpack_from(data)
        if version != VERSION:
            raise TraceDumpError(f"version {version}, not {VERSION}")
        if self.size > len(data) or header_size < HEADER.size or section_header_size < SECTION.size:
            raise TraceDumpError(f"cut off: {len(data)} of {self.size} bytes")
        self.build_id = build_id[:build_id_size].hex()
        self.sources, self.contexts, self.stacks = [], {}, {}
        parts = self._sections(data, header_size, section_header_size, sections)
        self._read(data, parts)

    @classmethod
    def load(cls, path):
        return cls(pathlib.Path(path).read_bytes())

    @staticmethod
    def _sections(data, at, header_size, count):
        """{(tag, source): (offset of the first item, bytes of an item, items)}."""
        parts = {}
        for _ in range(count):
            if at + header_size > len(data):
                raise TraceDumpError("a section is cut off")
            tag, item_size, items, size, source, _ = SECTION.unpack_from(data, at)
            at += header_size
            if items * item_size > size or at + size > len(data):
                raise TraceDumpError(f"section {tag} is cut off")
            parts[tag, source if tag == RECORDS else 0] = (at, item_size, items)
            at += size
        return parts

    @staticmethod
    def _items(data, part, layout):
        at, item_size, count = part
        if count and item_size < layout.size:
            raise TraceDumpError(f"items of {item_size} bytes, not {layout.size}")
        if item_size == layout.size:
            return layout.iter_unpack(data[at:at + count * item_size])
        return (layout.unpack_from(data, at + i * item_size) for i in range(count))

    def _read(self, data, parts):
        nothing = (0, 0, 0)

        def items(tag, layout, source=0):
            return self._items(data, parts.get((tag, source), nothing), layout)

        strings_at, _, strings_size = parts.get((STRINGS, 0), nothing)

        def string(offset):
            end = data.find(b"\0", strings_at + offset, strings_at + strings_size)
            if offset >= strings_size or end < 0:
                raise TraceDumpError("a string is outside the strings")
            return data[strings_at + offset:end].decode("utf-8", "replace")

        frames = [frame for (frame,) in items(FRAMES, FRAME)]
        for number, kind, first, count, _ in items(STACKS, STACK):
            if first + count > len(frames):
                raise TraceDumpError("a stack is outside the frames")
            self.stacks[number] = Stack(number, STACK_KINDS.get(kind, "?"), tuple(frames[first:first + count]))
        for number, kind, pid, name, path, build_id_size, _, _, build_id in items(CONTEXTS, CONTEXT):
            self.contexts[number] = Context(number, CONTEXT_KINDS.get(kind, "?"), pid, string(name), string(path),
                                            build_id[:build_id_size].hex())
        for index, item in enumerate(items(SOURCES, SOURCE)):
            name, kind, state, flags, object_size, least, most, sample, depth, pid, mark, stacks, *counters = item
            options = {"depth": depth, "min": least, "max": 0 if most == NO_LIMIT else most, "pid": pid, "sample": sample}
            self.sources.append(Source(
                string(name), SOURCE_KINDS.get(kind, "?"), STATES.get(state, "?"), bool(flags & 1), object_size,
                {key: value for key, value in options.items() if value}, mark, stacks, dict(zip(COUNTERS, counters)),
                [Record(address, size, time, stack, context, mark, cpu, bool(flags & 1), user_stack)
                 for address, size, time, stack, context, user_stack, mark, cpu, flags in items(RECORDS, RECORD, index)]))

    def source(self, name):
        """The trace of that name; None if there is none."""
        return next((source for source in self.sources if source.name == name), None)

    def age(self, record):
        """Milliseconds from the allocation to the dump."""
        return (self.time - record.time) // 1_000_000

    def context_name(self, number):
        return str(self.contexts[number]) if number else "unknown"


class Symbols:
    """Names of a kernel's functions, as the kernel itself writes them."""

    def __init__(self, elf):
        self.functions = ksyms.functions(ksyms.nm(str(elf)))
        self.addresses = [address for address, _ in self.functions]

    def frame(self, return_address):
        """"function+0x12 [kernel]"; the address if it is in no function."""
        index = bisect.bisect_right(self.addresses, return_address - 1) - 1
        if index < 0:
            return f"{return_address:#x}"
        address, name = self.functions[index]
        return f"{name}+{return_address - address:#x} [kernel]"


def text(dump, symbols=None):
    """The lines of the dump, trace by trace."""
    if dump.stacks_unnamed or dump.contexts_unnamed:
        yield f"not named for want of memory: the stacks of {dump.stacks_unnamed} records, the contexts of {dump.contexts_unnamed}"
    for source in dump.sources:
        options = "".join(f" {key} {value}" for key, value in source.options.items() if key != "depth")
        yield (f"kmemtrace {source.name} state {source.state} objsize {source.object_size} depth {source.options['depth']} "
               f"mark {source.mark}{options}")
        counters = [f"{key} {value}" for key, value in source.counters.items()]
        counters.insert(COUNTERS.index("stacks_lost"), f"stacks {source.stacks}")
        yield " ".join(counters)
        groups = {}
        for record in source.records:
            groups.setdefault(record.stack, []).append(record)
        for number, records in sorted(groups.items(), key=lambda group: -sum(record.size for record in group[1])):
            yield from group_text(dump, number, records, symbols)


def group_text(dump, number, records, symbols):
    records = sorted(records, key=lambda record: (record.time, record.object))
    yield ""
    yield f"{sum(record.size for record in records)} bytes in {len(records)} allocations from stack"
    if number == 0:
        yield "\tthe stack was not recorded"
    else:
        stack = dump.stacks[number]
        for frame in stack.frames:
            yield "\t" + (symbols.frame(frame) if symbols and stack.kind == "kernel" else f"{frame:#x}")
    ages = [dump.age(record) for record in records]
    marks = ",".join(map(str, sorted({record.mark for record in records})))
    contexts = ", ".join(dict.fromkeys(dump.context_name(record.context) for record in records))
    yield f"\tage ms min {min(ages)} avg {sum(ages) // len(ages)} max {max(ages)}, marks {marks}, contexts {contexts}"
    for record, age in zip(records, ages):
        yield (f"\t{record.object:#018x} size {record.size} age {age} mark {record.mark} cpu {record.cpu} "
               f"{dump.context_name(record.context)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernel", metavar="ELF", help="names kernel functions by this ELF file (build/stele.elf)")
    parser.add_argument("file", help="a copy of #mem/tracedump")
    options = parser.parse_args()
    try:
        dump = TraceDump.load(options.file)
    except (OSError, TraceDumpError) as error:
        sys.exit(f"{options.file}: {error}")
    print("\n".join(text(dump, Symbols(options.kernel) if options.kernel else None)))


if __name__ == "__main__":
    main()
