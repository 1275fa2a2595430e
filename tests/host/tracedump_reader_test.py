"""Tests of tools/stele/tracedump.py, which reads binary dumps on the host."""
import re
import struct
import subprocess

import pytest

from report_fakes import section
from stele.abi import ABI, Abi, AbiError
from stele.abi import HEADER as HEADER_FILE
from stele.tracedump import (CONTEXT, CONTEXTS, COUNTERS, FRAME, FRAMES, FREE, FREES, HEADER, LEAST_HEADER, MAGIC, NO_LIMIT, RECORD, RECORDS, SECTION, SOURCE,
                             SOURCES, STACK, STACKS, STRINGS, TraceDump, TraceDumpError, text)


def binary(extra=b"", unknown=(), version=3, unnamed=(0, 0), frees=None, uncounted=0):
    """Returns a binary dump of one trace with two records. `extra`: bytes that are appended to the
    header, to every section header and to every item, like fields that a later kernel may add.
    `unknown`: (tag, bytes) of further sections. `unnamed`: the number of records whose stack could
    not be named for lack of memory, and the number of records whose context could not be named. `frees`: items of the section of frees; None if
    there is no such section and the trace does not count frees. `uncounted`: the number of frees that are not counted."""
    counters = dict(seen=5, recorded=3, dropped=1, filtered=1, freed=1, cleared=0, live=2, bytes=1064, untracked=9, unmatched=4, stacks_lost=1,
                    contexts_lost=1, truncated=0, estimated_bytes=2000, estimated_objects=10)
    more = len(extra)
    sections = [section(tag, 1, data, extra=extra) for tag, data in unknown] + [
        section(STRINGS, 1, b"\0pipe\0sh\0/bin/sh\0", extra=extra),
        section(SOURCES, SOURCE.size + more, SOURCE.pack(1, 1, 2, 1 if frees is None else 3, 64, 0, NO_LIMIT, 512, 32, 12, 3, 1, *counters.values()) + extra, extra=extra),
        section(FRAMES, 8, FRAME.pack(0xFFFFFFFF80001234) + FRAME.pack(0xFFFFFFFF80005678) + FRAME.pack(0x401000), extra=extra),
        section(STACKS, STACK.size + more, STACK.pack(17, 1, 0, 2, 0) + extra + STACK.pack(18, 2, 2, 1, 0) + extra, extra=extra),
        section(CONTEXTS, CONTEXT.size + more, CONTEXT.pack(5, 2, 12, 6, 9, 2, 0, 0, b"\xab\xcd".ljust(32, b"\0")) + extra, extra=extra),
        section(RECORDS, RECORD.size + more, RECORD.pack(0xFFFF800000001000, 64, 2_000_000_000, 17, 5, 18, 3, 1, 0) + extra +
                RECORD.pack(0xFFFF800000002000, 1000, 1_000_000_000, 0, 0, 0, 1, 0, 1) + extra, extra=extra),
    ]
    if frees is not None:
        sections.append(section(FREES, FREE.size + more, b"".join(FREE.pack(*item) + extra for item in frees), extra=extra))
    header_size = HEADER.size + more
    data = b"".join(sections)
    return HEADER.pack(MAGIC, version, header_size, SECTION.size + more, len(sections), header_size + len(data), 3_500_000_000, 65536, 4096,
                       3, 34, b"\x01\x02\x03".ljust(32, b"\0"), *unnamed, uncounted) + extra + data


def check(data):
    dump = TraceDump(data)
    assert (dump.build_id, dump.time, dump.memory_limit, dump.memory_used, dump.commands) == ("010203", 3_500_000_000, 65536, 4096, 34)
    [source] = dump.sources
    assert dump.source("pipe") is source
    assert (source.kind, source.state, source.zombie, source.object_size, source.mark) == ("cache", "stopped", True, 64, 3)
    assert source.options == {"depth": 32, "pid": 12, "sample": 512}
    assert (source.counters["untracked"], source.counters["truncated"], source.counters["estimated_objects"]) == (9, 0, 10)
    assert source.broken_identities() == []
    assert dump.stacks[17].frames == (0xFFFFFFFF80001234, 0xFFFFFFFF80005678)
    context = dump.contexts[5]
    assert (str(context), context.path, context.build_id) == ("pid 12 sh", "/bin/sh", "abcd")
    known, unknown = source.records
    assert (known.object, known.stack, known.mark, known.cpu, dump.age(known)) == (0xFFFF800000001000, 17, 3, 1, 1500)
    assert (dump.stacks[known.user_stack].kind, dump.stacks[known.user_stack].frames, unknown.user_stack) == ("user", (0x401000,), 0)
    assert (known.not_leak, unknown.not_leak) == (False, True)
    assert (unknown.size, unknown.stack, dump.context_name(unknown.context)) == (1000, 0, "unknown")
    assert source.weight(known) == pytest.approx(8.5104, abs=0.0001)


def test_whole():
    check(binary())


def test_what_later_kernels_add_is_passed_over():
    check(binary(extra=b"\xee" * 8, unknown=[(77, b"what is this"), (1000, b"")]))


def test_layout_is_what_a_compiler_makes_of_it(tmp_path):
    def lines():
        for name, layout in ABI.layouts.items():
            yield f'printf("{name} %zu\\n", sizeof(struct abi_tracedump_{name}));'
            for field in layout.fields:
                place = re.sub(r"_(\d)$", r"[\1]", field)
                yield f'printf("{name}.{field} %zu\\n", offsetof(struct abi_tracedump_{name}, {place}));'
        for values in ABI.enums.values():
            yield from (f'printf("{value} %d\\n", ABI_TRACEDUMP_{value.upper()});' for value in values)

    def expected():
        for name, layout in ABI.layouts.items():
            yield f"{name} {layout.size}"
            offsets = [struct.calcsize(layout.struct.format[:1] + "".join(codes)) for codes in prefixes(re.findall(r"\d*\w", layout.struct.format))]
            yield from (f"{name}.{field} {offset}" for field, offset in zip(layout.fields, offsets, strict=True))
        yield from (f"{name} {value}" for values in ABI.enums.values() for name, value in values.items())

    def prefixes(codes):
        return [codes[:i] for i in range(len(codes))]

    program = f'#include <stddef.h>\n#include <stdio.h>\n#include "{HEADER_FILE}"\nint main(void) {{\n' + "\n".join(lines()) + "\n}\n"
    subprocess.run(["gcc", "-x", "c", "-o", tmp_path / "layout", "-"], input=program, text=True, check=True)
    said = subprocess.run([tmp_path / "layout"], stdout=subprocess.PIPE, text=True, check=True).stdout
    assert said.splitlines() == list(expected())
    assert set(COUNTERS) < set(ABI.layouts["source"].fields)


@pytest.mark.parametrize("line", ["  uint64_t more;\n", "  void* pointer;\n", "  uint32_t a, b;\n"])
def test_a_layout_that_is_not_understood_is_refused(line):
    with pytest.raises(AbiError):
        Abi(HEADER_FILE.read_text().replace("  uint16_t mark;\n", "  uint16_t mark;\n" + line))


def test_abi_is_c_and_cpp():
    for language in (["-x", "c", "-std=c11"], ["-x", "c++", "-std=c++17"]):
        subprocess.run(["gcc", *language, "-Wall", "-Wextra", "-Werror", "-pedantic", "-fsyntax-only", "-"], check=True,
                       input=f'#include "{HEADER_FILE}"\nchar magic[] = ABI_TRACEDUMP_MAGIC;\n', text=True)


def test_identities():
    data = bytearray(binary())
    at = data.index(SOURCE.pack(1, 1, 2, 1, 64, 0, NO_LIMIT, 512, 32, 12, 3, 1, *[0] * 15)[:64])
    data[at + 64] = 6
    assert TraceDump(bytes(data)).sources[0].broken_identities() == ["seen = recorded + dropped + filtered"]


def test_says_what_has_no_name():
    assert not list(text(TraceDump(binary())))[0].startswith("not named")
    dump = TraceDump(binary(unnamed=(7, 8)))
    assert (dump.stacks_unnamed, dump.contexts_unnamed) == (7, 8)
    assert list(text(dump))[0] == "not named for lack of memory: the stacks of 7 records, the contexts of 8"


def test_what_is_no_dump():
    with pytest.raises(TraceDumpError, match="version 2"):
        TraceDump(binary(version=2))
    whole = binary()
    for data in (b"", b"kmemtrace pipe state off\n" * 9, whole[:-1], whole[:HEADER.size], whole[:50]):
        with pytest.raises(TraceDumpError):
            TraceDump(data)
    # Set each 32-bit word of the first section header, one word at a time, to a value far out of range.
    at = HEADER.size
    for offset in range(at, at + SECTION.size, 4):
        damaged = whole[:offset] + b"\xff\xff\xff\x7f" + whole[offset + 4:]
        try:
            TraceDump(damaged)
        except TraceDumpError:
            pass


@pytest.mark.parametrize("extra", [b"", b"\xee" * 8])
def test_who_frees(extra):
    source = TraceDump(binary(extra)).source("pipe")
    assert ("frees" in source.options, source.frees) == (False, {})
    dump = TraceDump(binary(extra, frees=[(0, 17, 18, 0, 7), (0, 17, 17, 0, 1 << 40)], uncounted=5))
    assert dump.source("pipe").options["frees"] == 1
    assert (dump.source("pipe").frees, dump.frees_uncounted) == ({17: {18: 7, 17: 1 << 40}}, 5)
    lines = list(text(dump))
    assert lines[0] == "5 frees are not counted: there was no memory"
    at = lines.index("\tfreed 7 by stack")
    assert lines[at:at + 5] == ["\tfreed 7 by stack", "\t\t0x401000", "\tfreed 1099511627776 by stack", "\t\t0xffffffff80001234", "\t\t0xffffffff80005678"]
    assert "\tfreed none" in list(text(TraceDump(binary(frees=[]))))


@pytest.mark.parametrize("item, message", [
    ((1, 17, 18, 0, 1), "frees of source 1 of 1"), ((0, 16, 18, 0, 1), "a count of frees names stack 16"),
    ((0, 17, 0, 0, 1), "a count of frees names stack 0"), ((0, 17, 17, 0, 1), "frees of stack 17 by stack 17 are there twice")])
def test_counts_of_frees_that_are_inconsistent(item, message):
    with pytest.raises(TraceDumpError, match=message):
        TraceDump(binary(frees=[(0, 17, 17, 0, 2), item]))


def test_a_trace_that_counts_no_frees_has_none():
    data = binary(frees=[(0, 17, 17, 0, 2)])
    flags = SOURCE.pack(1, 1, 2, 3)[:16]
    with pytest.raises(TraceDumpError, match="pipe: has frees, but does not count them"):
        TraceDump(data.replace(flags, SOURCE.pack(1, 1, 2, 1)[:16]))


def test_a_dump_of_an_earlier_kernel_lacks_the_later_fields():
    data = bytearray(binary(uncounted=9))
    del data[LEAST_HEADER:HEADER.size]
    header_size, size = HEADER.size - LEAST_HEADER, len(data)
    data[12:16] = LEAST_HEADER.to_bytes(4, "little")
    data[24:32] = size.to_bytes(8, "little")
    dump = TraceDump(bytes(data))
    assert (header_size, dump.frees_uncounted, len(dump.source("pipe").records)) == (8, 0, 2)
