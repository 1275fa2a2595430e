"""Fake dumps and profiles for the tests of scripts/report."""
import contextlib
import os

from stele.leaks import FILTERS
from stele.report.lookup import Lookup
from stele.report.profile import Amount, Frame, Key, Profile
from stele.tracedump import COUNTERS, Context, Record, Source, Stack
from stele.tracedump_writer import tracedump_bytes

KERNEL, USER, TAKEN = 17, 18, 19  # numbers of stacks
STACKS = {KERNEL: Stack(KERNEL, "kernel", (0xFFFFFFFF80001234, 0xFFFFFFFF80005678)), USER: Stack(USER, "user", (0x401000,)),
          TAKEN: Stack(TAKEN, "kernel", (0xFFFFFFFF80009000,))}
CONTEXTS = {5: Context(5, "process", 12, "sh", "/bin/sh", "abcd"), 6: Context(6, "irq", 0, "timer", "", "")}
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


def dump(*sources):
    return tracedump_bytes(list(sources), STACKS, CONTEXTS, TIME, bytes.fromhex("010203"))


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
