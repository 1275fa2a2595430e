#!/usr/bin/python3
"""Reads #mem/tracedump, the binary dump of all traces (docs/tracedump.md). abi.py gets the layouts from kern/abi/tracedump.h.

    tools/stele/tracedump.py [--kernel ELF] FILE     prints FILE as text, in the form of #mem/kmemtrace/NAME but with every object
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
from stele.abi import ABI  # noqa: E402
from stele.elfcore import CoreError, check_kernel  # noqa: E402

MAGIC, VERSION, COUNTERS = ABI.magic, ABI.constants["ABI_TRACEDUMP_VERSION"], ABI.counters
LEAST_HEADER = 112  # bytes of the header in the first dumps of this version
SOURCES, CONTEXTS, STACKS, FRAMES, STRINGS, RECORDS, FREES = (
    ABI.enums["tag"][name] for name in ("sources", "contexts", "stacks", "frames", "strings", "records", "frees"))
HEADER, SECTION, SOURCE, CONTEXT, STACK, RECORD, FREE = (
    ABI.layouts[name] for name in ("header", "section", "source", "context", "stack", "record", "frees"))
FRAME = struct.Struct("<Q")
SOURCE_KINDS, STATES, CONTEXT_KINDS, STACK_KINDS = ({value: name for name, value in ABI.enums[enum].items()}
                                                   for enum in ("source_kind", "state", "context_kind", "stack_kind"))
ZOMBIE, COUNTS_FREES, NOT_LEAK = ABI.enums["source_flag"]["zombie"], ABI.enums["source_flag"]["counts_frees"], ABI.enums["record_flag"]["not_leak"]
NO_LIMIT = (1 << 64) - 1
KNOWN = ABI.enums["tag"].values()


class TraceDumpError(Exception):
    """The bytes are no dump, or the dump is incomplete, inconsistent or of an unknown version."""


@dataclass(frozen=True)
class Context:
    id: int
    kind: str  # task, process, irq
    pid: int
    name: str
    path: str
    build_id: str  # hexadecimal; "" if it is not known
    thread: int = 0  # 0 for the first thread of a process, and for a context that is not a process

    def __str__(self):
        if self.kind != "process":
            return f"{self.kind} {self.name}"
        return f"pid {self.pid} thread {self.thread} {self.name}" if self.thread else f"pid {self.pid} {self.name}"


@dataclass(frozen=True)
class Stack:
    id: int
    kind: str  # kernel, user
    frames: tuple  # return addresses, innermost first


class Record(RECORD.Item):
    """An outstanding object: struct abi_tracedump_record."""

    __slots__ = ()

    @property
    def not_leak(self):
        """True if the kernel keeps the object intentionally (kmem_not_leak), so that it is no leak."""
        return bool(self.flags & NOT_LEAK)


@dataclass
class Source:
    """The trace of one cache, of one arena or of one class of references, or the outstanding objects of a
    probe session."""

    name: str
    kind: str  # cache, arena, probe, references
    state: str  # running, stopped
    zombie: bool
    object_size: int
    options: dict  # {"depth": 16, …}: those of the options depth, min, max, pid, sample and frees that are set
    mark: int
    stacks: int
    counters: dict  # {"seen": number, "recorded": number, …}
    records: list = field(default_factory=list)
    frees: dict = field(default_factory=dict)  # {stack: {stack that freed: number of its objects}}, most frees first; empty unless options has frees

    def weight(self, record):
        """Returns how many allocations of the record's size the record represents. This is 1 if the trace is not sampled."""
        rate = self.options.get("sample", 0)
        return 1.0 if not rate or not record.size else -1.0 / math.expm1(-record.size / rate)

    def broken_identities(self):
        """Returns, as text, those equations between the counters that are violated. A correct dump violates none."""
        c = self.counters
        checks = {"seen = recorded + dropped + filtered": c["seen"] == c["recorded"] + c["dropped"] + c["filtered"],
                  "recorded = freed + cleared + live": c["recorded"] == c["freed"] + c["cleared"] + c["live"],
                  "live = number of records": c["live"] == len(self.records),
                  "bytes = sum of the records": c["bytes"] == sum(record.size for record in self.records),
                  "stacks = those of the records": self.stacks == len({r.stack for r in self.records} - {0})}
        return [identity for identity, holds in checks.items() if not holds]


class Strings:
    """The section of strings. Items refer to a string by its offset."""

    def __init__(self, data):
        self.data, self.known = data, {}

    def at(self, offset):
        """Returns the string that begins at this offset."""
        if offset not in self.known:
            end = self.data.find(b"\0", offset)
            if end < 0 or (offset and self.data[offset - 1]):
                raise TraceDumpError("a string is outside the strings")
            self.known[offset] = self.data[offset:end].decode("utf-8", "replace")
        return self.known[offset]


def named(names, number, what):
    if number not in names:
        raise TraceDumpError(f"a {what} of the unknown kind {number}")
    return names[number]


def check_order(known, number, what):
    """Checks that `number` is larger than 0 and larger than all numbers in `known`. So no number occurs twice."""
    if number <= next(reversed(known), 0):
        raise TraceDumpError(f"{what} {number} is out of order")


class TraceDump:
    """A whole dump: its sources (traces and probe sessions), its contexts and stacks by their ids, its time, and the build id of its kernel.

    The constructor raises TraceDumpError for inconsistent bytes: sections must fill the file without gaps, every number must refer to an item that
    exists, and all stacks together may not have more frames than the section of frames has. So the memory of a TraceDump is proportional to the
    bytes, and later code need not check the numbers.
    """

    def __init__(self, data):
        if len(data) < HEADER.size or data[:len(MAGIC)] != MAGIC:
            raise TraceDumpError("not a trace dump")
        header = HEADER.unpack_from(data)
        if LEAST_HEADER <= header.header_size < HEADER.size:  # of an earlier kernel: the fields that it lacks are 0
            header = HEADER.unpack_from(data[:header.header_size] + bytes(HEADER.size - header.header_size))
        self.size, self.time, self.memory_limit, self.memory_used = header.size, header.time, header.memory_limit, header.memory_used
        self.commands, self.stacks_unnamed, self.contexts_unnamed = header.commands, header.stacks_unnamed, header.contexts_unnamed
        self.frees_uncounted = header.frees_uncounted
        if header.version != VERSION:
            raise TraceDumpError(f"version {header.version}, not {VERSION}")
        if self.size > len(data):
            raise TraceDumpError(f"cut off: {len(data)} of {self.size} bytes")
        if not LEAST_HEADER <= header.header_size <= self.size or header.section_header_size < SECTION.size:
            raise TraceDumpError(f"a header of {header.header_size} bytes, and sections' of {header.section_header_size}")
        self.build_id = self._build_id(header)
        self.sources, self.contexts, self.stacks = [], {}, {}
        data = memoryview(data)[:self.size]
        self._read(data, self._sections(data, header))

    @classmethod
    def load(cls, path):
        """Reads a dump from a file that has nothing after the dump. Raises TraceDumpError or OSError."""
        with open(path, "rb") as file:
            data = file.read(HEADER.size)
            # If the file does not begin like a dump, read no more of it: it may be large or endless.
            dump = cls(data + file.read() if data.startswith(MAGIC) else data)
            if file.tell() != dump.size:
                raise TraceDumpError(f"{file.tell() - dump.size} bytes behind its end")
            return dump

    @staticmethod
    def _build_id(item):
        if item.build_id_size > len(item.build_id):
            raise TraceDumpError(f"a build id of {item.build_id_size} bytes")
        return item.build_id[:item.build_id_size].hex()

    @staticmethod
    def _sections(data, header):
        """Returns {(tag, source): (offset of the first item, bytes of an item, number of items)} of the sections."""
        parts, at = {}, header.header_size
        for _ in range(header.sections):
            if at + header.section_header_size > len(data):
                raise TraceDumpError("a section is cut off")
            section = SECTION.unpack_from(data, at)
            at += header.section_header_size
            used = section.count * section.item_size
            if at + section.size > len(data) or used > section.size:
                raise TraceDumpError(f"section {section.tag} is cut off")
            if section.size != -(-used // 8) * 8 or any(data[at + used:at + section.size]):
                raise TraceDumpError(f"section {section.tag} has {section.size} bytes for {section.count} items of {section.item_size}")
            key = section.tag, section.source if section.tag == RECORDS else 0
            if key in parts and section.tag in KNOWN:
                raise TraceDumpError(f"section {section.tag} is there twice")
            parts[key] = (at, section.item_size, section.count)
            at += section.size
        if at != len(data):
            raise TraceDumpError(f"{len(data) - at} bytes behind the last section")
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

        strings_at, string_item, strings_size = parts.get((STRINGS, 0), nothing)
        if strings_size and string_item != 1:
            raise TraceDumpError(f"strings of {string_item} bytes a character")
        strings = Strings(bytes(data[strings_at:strings_at + strings_size]))
        self._read_stacks([frame for (frame,) in items(FRAMES, FRAME)], items(STACKS, STACK))
        for item in items(CONTEXTS, CONTEXT):
            check_order(self.contexts, item.id, "context")
            self.contexts[item.id] = Context(item.id, named(CONTEXT_KINDS, item.kind, "context"), item.pid, strings.at(item.name),
                                             strings.at(item.path), self._build_id(item), item.thread)
        for index, item in enumerate(items(SOURCES, SOURCE)):
            if (RECORDS, index) not in parts:
                raise TraceDumpError(f"source {index} has no records")
            options = {"depth": item.depth, "min": item.min_size, "max": 0 if item.max_size == NO_LIMIT else item.max_size, "pid": item.pid,
                       "sample": item.sample, "frees": int(bool(item.flags & COUNTS_FREES))}
            self.sources.append(Source(
                strings.at(item.name), named(SOURCE_KINDS, item.kind, "source"), named(STATES, item.state, "state"), bool(item.flags & ZOMBIE),
                item.object_size, {key: value for key, value in options.items() if value}, item.mark, item.stacks,
                {name: getattr(item, name) for name in COUNTERS}, list(map(Record._make, items(RECORDS, RECORD, index)))))
            self._check_records(self.sources[-1])
        if unowned := [source for tag, source in parts if tag == RECORDS and source >= len(self.sources)]:
            raise TraceDumpError(f"records of source {unowned[0]} of {len(self.sources)}")
        for item in items(FREES, FREE):
            self._add_frees(item)

    def _add_frees(self, item):
        if item.source >= len(self.sources):
            raise TraceDumpError(f"frees of source {item.source} of {len(self.sources)}")
        source = self.sources[item.source]
        if "frees" not in source.options:
            raise TraceDumpError(f"{source.name}: has frees, but does not count them")
        if missing := {item.stack, item.freed_by} - self.stacks.keys():
            raise TraceDumpError(f"{source.name}: a count of frees names stack {min(missing)}, which is not there")
        freed_by = source.frees.setdefault(item.stack, {})
        if item.freed_by in freed_by:
            raise TraceDumpError(f"{source.name}: frees of stack {item.stack} by stack {item.freed_by} are there twice")
        freed_by[item.freed_by] = item.count

    def _read_stacks(self, frames, items):
        owned = 0
        for item in items:
            check_order(self.stacks, item.id, "stack")
            owned += item.frames
            end = item.first_frame + item.frames
            if end > len(frames) or owned > len(frames):
                raise TraceDumpError("a stack is outside the frames")
            self.stacks[item.id] = Stack(item.id, named(STACK_KINDS, item.kind, "stack"), tuple(frames[item.first_frame:end]))

    def _check_records(self, source):
        """Checks that the stacks, user stacks and contexts of all records exist."""
        for what, numbers, known in (
                ("stack", {record.stack for record in source.records}, self.stacks.keys()),
                ("user stack", {record.user_stack for record in source.records}, {n for n, stack in self.stacks.items() if stack.kind == "user"}),
                ("context", {record.context for record in source.records}, self.contexts.keys())):
            if missing := numbers - known - {0}:
                raise TraceDumpError(f"{source.name}: a record names {what} {min(missing)}, which is not there")

    def source(self, name):
        """Returns the Source of this name; None if there is none."""
        return next((source for source in self.sources if source.name == name), None)

    def age(self, record):
        """Returns the milliseconds from the record's allocation to the dump."""
        return (self.time - record.time) // 1_000_000

    def context_name(self, number):
        return str(self.contexts[number]) if number else "unknown"


class Symbols:
    """Finds the functions of addresses in a kernel's ELF file. The names are those that the kernel prints."""

    def __init__(self, elf):
        self.functions = ksyms.functions(ksyms.nm(str(elf)))
        self.addresses = [address for address, _ in self.functions]

    def frame(self, return_address):
        """Returns "function+0x12 [kernel]" for a return address; the address as text if it is below all functions."""
        index = bisect.bisect_right(self.addresses, return_address - 1) - 1
        if index < 0:
            return f"{return_address:#x}"
        address, name = self.functions[index]
        return f"{name}+{return_address - address:#x} [kernel]"


def text(dump, symbols=None):
    """Yields the lines of the dump as text, one trace after the other."""
    if dump.stacks_unnamed or dump.contexts_unnamed:
        yield f"not named for lack of memory: the stacks of {dump.stacks_unnamed} records, the contexts of {dump.contexts_unnamed}"
    if dump.frees_uncounted:
        yield f"{dump.frees_uncounted} frees are not counted: there was no memory"
    for source in dump.sources:
        options = "".join(f" {key} {value}" for key, value in source.options.items() if key != "depth")
        yield (f"kmemtrace {source.name} state {source.state} objsize {source.object_size} depth {source.options.get('depth', 0)} "
               f"mark {source.mark}{options}")
        yield counters_line(source)
        groups = {}
        for record in source.records:
            groups.setdefault(record.stack, []).append(record)
        for number, records in sorted(groups.items(), key=lambda group: -sum(record.size for record in group[1])):
            yield from group_text(dump, source, number, records, symbols)


def counters_line(source):
    """Returns the line of counters in a text dump."""
    words = [f"{key} {value}" for key, value in source.counters.items()]
    words.insert(COUNTERS.index("stacks_lost"), f"stacks {source.stacks}")
    return " ".join(words)


def object_line(source, record, age, context):
    """Returns the line of an object in a text dump. `age`: in milliseconds; `context`: name of the context."""
    size = "" if source.kind == "references" else f" size {record.size}"
    return f"\t{record.object:#x}{size} age {age} mark {record.mark} cpu {record.cpu}{' not_leak' if record.not_leak else ''} {context}"


def frame_texts(stack, symbols):
    return [symbols.frame(frame) if symbols and stack.kind == "kernel" else f"{frame:#x}" for frame in stack.frames]


def group_text(dump, source, number, records, symbols):
    records = sorted(records, key=lambda record: (record.time, record.object))
    yield ""
    yield f"{sum(record.size for record in records)} bytes in {len(records)} allocations from stack"
    if number == 0:
        yield "\tthe stack was not recorded"
    else:
        yield from ("\t" + frame for frame in frame_texts(dump.stacks[number], symbols))
    ages = [dump.age(record) for record in records]
    marks = ",".join(map(str, sorted({record.mark for record in records})))
    contexts = ", ".join(dict.fromkeys(dump.context_name(record.context) for record in records))
    yield f"\tage ms min {min(ages)} avg {sum(ages) // len(ages)} max {max(ages)}, marks {marks}, contexts {contexts}"
    for freed_by, frees in source.frees.get(number, {}).items():
        yield f"\tfreed {frees} by stack"
        yield from ("\t\t" + frame for frame in frame_texts(dump.stacks[freed_by], symbols))
    if number and "frees" in source.options and number not in source.frees:
        yield "\tfreed none"
    for record, age in zip(records, ages):
        yield object_line(source, record, age, dump.context_name(record.context))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernel", metavar="ELF", help="names kernel functions by this ELF file (build/stele.elf)")
    parser.add_argument("file", help="a copy of #mem/tracedump")
    options = parser.parse_args()
    try:
        dump = TraceDump.load(options.file)
        if options.kernel:
            check_kernel(options.kernel)
    except (TraceDumpError, OSError, MemoryError) as error:
        print(f"tracedump: {options.file}: {getattr(error, 'strerror', None) or error or type(error).__name__}", file=sys.stderr)
        return 2
    except CoreError as error:
        print(f"tracedump: {error}", file=sys.stderr)
        return 2
    print("\n".join(text(dump, Symbols(options.kernel) if options.kernel else None)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
