"""Fake dumps and profiles for the tests of scripts/report."""
import contextlib
import os

from stele.leaks import FILTERS
from stele.report.lookup import Lookup
from stele.report.profile import Amount, Frame, Key, Profile
from stele.tracedump import (CONTEXT, CONTEXT_KINDS, CONTEXTS, COUNTERS, FRAME, FRAMES, HEADER, MAGIC, NO_LIMIT, RECORD, RECORDS, SECTION, SOURCE,
                             SOURCE_KINDS, SOURCES, STACK, STACK_KINDS, STACKS, STRINGS, VERSION, Context, Record, Source, Stack)

KERNEL, USER, TAKEN = 17, 18, 19  # numbers of stacks
STACKS_THERE = {KERNEL: Stack(KERNEL, "kernel", (0xFFFFFFFF80001234, 0xFFFFFFFF80005678)), USER: Stack(USER, "user", (0x401000,)),
                TAKEN: Stack(TAKEN, "kernel", (0xFFFFFFFF80009000,))}
CONTEXTS_THERE = {5: Context(5, "process", 12, "sh", "/bin/sh", "abcd"), 6: Context(6, "irq", 0, "timer", "", "")}
TIME = 3_500_000_000  # nanoseconds


def source(name="pipe", records=(), kind="cache", **options):
    counters = dict.fromkeys(COUNTERS, 0)
    size = sum(record.size for record in records)
    counters |= dict(seen=len(records), recorded=len(records), live=len(records), bytes=size, estimated_bytes=size, estimated_objects=len(records))
    counters |= {key: options.pop(key) for key in list(options) if key in COUNTERS}
    assert set(options) <= {*FILTERS}
    return Source(name, kind, "running", False, 64, {"depth": 32, **options}, 0, len({record.stack for record in records} - {0}), counters, list(records))


def records(count, size=64, stack=KERNEL, context=5, user_stack=USER, time=2_000_000_000, mark=0, first=0xFFFF800000001000):
    return [Record(first + 4096 * i, size, time, stack, context, user_stack, mark, cpu=1) for i in range(count)]


def section(tag, item_size, data, source=0, extra=b""):
    """Returns a section of a binary dump. `extra` is appended to its header."""
    padding = b"\0" * (-len(data) % 8)
    return SECTION.pack(tag=tag, item_size=item_size, count=len(data) // item_size, size=len(data + padding), source=source) + extra + data + padding


def dump(*sources):
    """Returns a binary dump of these sources."""
    strings = bytearray(b"\0")

    def string(text):
        strings.extend(text.encode() + b"\0")
        return len(strings) - len(text) - 1

    def number(names, name):
        return next(number for number, known in names.items() if known == name)

    frames = [frame for stack in STACKS_THERE.values() for frame in stack.frames]
    stacks = [STACK.pack(id=each.id, kind=number(STACK_KINDS, each.kind), first_frame=frames.index(each.frames[0]), frames=len(each.frames))
              for each in STACKS_THERE.values()]
    contexts = [CONTEXT.pack(id=each.id, kind=number(CONTEXT_KINDS, each.kind), pid=each.pid, name=string(each.name), path=string(each.path),
                             build_id_size=len(each.build_id) // 2, build_id=bytes.fromhex(each.build_id)) for each in CONTEXTS_THERE.values()]
    traces = [SOURCE.pack(name=string(each.name), kind=number(SOURCE_KINDS, each.kind), state=1, object_size=each.object_size,
                          min_size=each.options.get("min", 0), max_size=each.options.get("max", NO_LIMIT), sample=each.options.get("sample", 0),
                          depth=each.options["depth"], pid=each.options.get("pid", 0), mark=each.mark, stacks=each.stacks, **each.counters)
              for each in sources]
    sections = [section(SOURCES, SOURCE.size, b"".join(traces)), section(CONTEXTS, CONTEXT.size, b"".join(contexts)),
                section(STACKS, STACK.size, b"".join(stacks)), section(FRAMES, FRAME.size, b"".join(map(FRAME.pack, frames))),
                section(STRINGS, 1, bytes(strings))]
    sections += [section(RECORDS, RECORD.size, b"".join(RECORD.pack(*record) for record in each.records), i) for i, each in enumerate(sources)]
    data = b"".join(sections)
    return HEADER.pack(magic=MAGIC, version=VERSION, header_size=HEADER.size, section_header_size=SECTION.size, sections=len(sections),
                       size=HEADER.size + len(data), time=TIME, build_id_size=3, build_id=bytes.fromhex("010203")) + data


def lookup(build, monkeypatch):
    """Returns a Lookup that searches for ELF files only in the folder `build`. The search is quick,
    because the folder has no ELF files."""
    monkeypatch.setenv("STELE_BUILD", str(build))
    return Lookup(programs=[])


@contextlib.contextmanager
def in_memory():
    """Returns the path of a file that exists only in memory, and a function that replaces its bytes.
    With files on a disk, tests that write thousands of files would wait for the disk."""
    file = os.memfd_create("report")

    def write(data):
        os.ftruncate(file, 0)
        os.pwrite(file, data, 0)
    try:
        yield f"/proc/self/fd/{file}", write
    finally:
        os.close(file)


def key(source="leaky", function="leaky_open", callers=("sys_open",), user=("main",), process="pid 3 leakdemo", mark=0, age="below 1 s", address=0):
    return Key(source, tuple(Frame(name, address=address) for name in (function, *callers)), tuple(Frame(name, module="/bin/x") for name in user),
               process, mark, age)


def profile(amounts, title="a dump", **fields):
    """A profile of `amounts`: {Key: (objects, bytes)}."""
    result = Profile(title, **fields)
    for each, (objects, size) in amounts.items():
        result.add(each, Amount(objects, size))
    return result
