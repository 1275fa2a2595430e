"""The judges of the leak test, its report, and the look-ups of lines that it is made with."""
import re
import subprocess
from types import SimpleNamespace

import pytest

from guest import BUILD, ROOT, leaktest, text
from stele import dwarf, ksyms
from stele.leaks import (CLEAN, LEAKED, UNKNOWN, Group, UserStack, doubts_about, growth, judge, memory_report, parse_counts, ranges, report,
                         without_allocator)
from stele.source_lines import ProgramLines, SourceLines, build_id
from stele.tracedump import COUNTERS, Record, Source


def group(marks, name="debug_64", function="leak_at_depth", offset=0x34, kind="cache", time=0, size=64):
    frames = [[(f"{function}+{offset:#x}", "kern/a.cc:2")], [("debug_alloc_write+0x12", "kern/a.cc:9")]]
    return Group(name, kind, offset, frames, [Record(0x1000, size, time, offset, 1, mark, 0) for mark in marks], ["pid 12 sh"])


def source(name="debug_64", mark=4, options=(), **counters):
    return Source(name, "cache", "stopped", False, 64, {"depth": 32, **dict(options)}, mark, 0, dict.fromkeys(COUNTERS, 0) | counters)


def dump(*sources, commands=0):
    return SimpleNamespace(sources=list(sources), commands=commands)


def doubts(after, before=None, counts="", counts_after=""):
    return doubts_about(before or dump(source(), commands=7), after, 5, 5, parse_counts(counts), parse_counts(counts_after))


def status(*groups, repeat=5):
    return judge(groups, repeat).status


def test_alive_in_all_generations():
    assert status(group(range(5))) == LEAKED


def test_two_generations_are_enough():
    for marks in ((0, 1), (0, 4), (2, 2, 3)):
        assert status(group(marks)) == LEAKED, marks
        assert status(group(marks), repeat=20) == LEAKED, marks


def test_many_objects_of_one_generation_are_no_leak():
    verdict = judge([group([0] * 1000)], 5)
    assert (verdict.status, len(verdict.others)) == (CLEAN, 1)


def test_one_run():
    assert status(group([0]), repeat=1) == LEAKED


def test_clean():
    assert status() == CLEAN


def test_a_function_is_accused_whatever_leads_to_it():
    """Of one cache, in more than half of the generations."""
    def several(marks, **changes):
        return [group([mark], offset=0x10 + 8 * mark, **changes) for mark in marks]

    verdict = judge(several(range(5)), 5)
    assert (verdict.status, [len(together) for together in verdict.by_function], verdict.others) == (LEAKED, [5], [])
    assert status(*several([0, 2, 4])) == LEAKED
    assert status(*several([0, 4])) == CLEAN
    assert status(*several([0, 1]), repeat=2) == LEAKED
    assert status(*several([0, 1]), *several([2, 3], name="chan"), *several([4], function="other")) == CLEAN
    unknown = [Group("a", "cache", 0, [], group([mark]).records) for mark in range(5)]
    assert status(*unknown) == CLEAN  # one stack that was not recorded has one group, not five
    assert [len(together) for together in judge([*several(range(5)), group([0, 1], function="other")], 5).by_function] == [5]


def test_doubts_are_not_clean():
    assert judge([], 5, ["of"]).status == UNKNOWN
    assert judge([group([0, 1])], 5, ["of"]).status == LEAKED


def test_nothing_to_doubt():
    assert doubts(dump(source(), commands=12)) == []


@pytest.mark.parametrize("counters, doubt", [
    (dict(dropped=1, seen=1), "debug_64: dropped 1"), (dict(filtered=1, seen=1), "debug_64: filtered 1"), (dict(cleared=1, seen=1, recorded=1), "debug_64: cleared 1"),
    (dict(stacks_lost=1), "debug_64: stacks_lost 1"), (dict(contexts_lost=2), "debug_64: contexts_lost 2"),
    (dict(seen=1), "debug_64: does not hold: seen = recorded + dropped + filtered"),
    (dict(mark=3), "debug_64: has mark 3 after 5 runs"), (dict(options={"pid": 3}), "debug_64: was traced with pid=3"),
], ids=lambda value: value if isinstance(value, str) else "")
def test_what_is_lost_is_doubted(counters, doubt):
    assert doubts(dump(source(**counters), commands=12)) == [doubt]


def test_meddling_is_doubted():
    assert doubts(dump(source(), commands=14)) == ["somebody else gave 2 of the tracer's commands start, stop, reset and mark"]
    assert doubts(dump(source(), commands=3), dump(source(), commands=(1 << 32) - 2)) == []
    assert doubts(dump(source(), commands=12), dump(source(), source("chan"), commands=7)) == ["chan: its trace has gone"]
    assert doubts(dump(commands=12), dump(commands=7)) == ["nothing was traced"]


COUNTS = """NAME T OBJSIZE TOTAL ALLOCATED LIVE ALLOCS FREES TRACED
base                               A     4096     525484032             0         0            0            0 off
  page                             A     4096       1048576        663552       144          220           76 off
    page_4096                      S     4096        655360        618496       151          227           76 never
    debug_64                       S       64             0             0         0            0            0 on
kernel_virtual                     A     4096 1099509530624        159744         9            9            0 off
"""
MORE = "    NAME                            S       64          4096          {size}        {live}            9            0 {traced}\n"


def test_what_was_made_after_the_start_is_doubted():
    def after(**changes):
        return doubts(dump(source(), commands=12), counts=COUNTS, counts_after=COUNTS + MORE.format(**dict(size=64, live=1, traced="off") | changes))

    assert after() == ["NAME: was made after the start, and is not traced"]
    assert after(traced="never") == []


def test_what_grew():
    before, after = parse_counts(COUNTS), parse_counts(COUNTS.replace("663552       144", "999999       200").replace("618496", "700000").replace("159744", "200000")
                                                       + MORE.format(size=640000, live=10000, traced="on"))
    assert growth(before, after) == [(640000, 10000, "NAME"), (336447, 56, "page")]
    told = memory_report("some command", before, after)
    assert "MEMORY RAN OUT" in told
    assert "    640000 bytes in 10000 allocations of NAME\n    336447 bytes in 56 allocations of page\n" in told


def test_causes_come_first():
    """The typed object, then kmalloc, then pages; what was made first; what there is less of."""
    ordered = [group([0, 1], "process", time=5, size=2000), group([0, 1], "fd_table", time=6, size=3000), group([0, 0, 1, 1], "chan", time=6, size=88),
               group([0, 1], "kmalloc_16", time=5), group([0, 1], "page", kind="arena", time=1, size=1 << 20)]
    for shuffled in (ordered, ordered[::-1], ordered[2:] + ordered[:2]):
        assert judge(shuffled, 5).by_stack == ordered


def test_the_allocator_s_inlined_functions_are_cut():
    make, chan, walk = ("ObjectCache::make", "kern/include/kmalloc.h:44"), ("chan_make", "kern/src/ns/chan.cc:3"), ("walk+0x8", "kern/src/ns/path.cc:4")
    assert without_allocator([[make, chan, walk], [make, walk]]) == [[chan, walk], [make, walk]]
    assert without_allocator([[make]]) == [[make]]
    assert without_allocator([]) == []


def test_ranges():
    assert [ranges(numbers) for numbers in ({0}, {0, 1, 2}, {3, 0, 1})] == ["0", "0-2", "0-1,3"]


def test_report():
    class Programs:
        def look_up(self, stacks):
            return {("0a1b", 0x401001): [("inner", "user/libc/a.h:1"), ("write", "user/libc/file.c:2")]}

    leaked = group([0, 0, 1, 2, 3, 4])
    leaked.frames[0].insert(0, ("inner", "a.h:1"))
    leaked.user_stacks = [UserStack(["pid 12 sh", "pid 13 sh"], "0a1b", "/bin/sh", (0x401001, 0x402000), 640, 10)]
    by_function = [group([mark], name="chan", function="walk", offset=16 + mark) for mark in range(4)]
    verdict = judge([group([3, 3], function="once"), leaked, *by_function], 5, ["all is doubtful"])
    told = report(verdict, dump(source(seen=9)), "some command", "3", 5, ["sleep", "cat", "sleep"], Programs())
    assert "leak test of: some command\n" in told
    assert "exit status: 3" in told
    assert "left running, and killed: sleep (2 times), cat (1 times)\n" in told
    assert "LEAKED: 384 bytes from 1 stacks, each alive in at least 2 of 5 runs\n" in told
    assert ("384 bytes in 6 allocations of debug_64 from stack\n    inner (inlined)  a.h:1\n    leak_at_depth+0x34  kern/a.cc:2\n"
            "    debug_alloc_write+0x12  kern/a.cc:9\n    marks 0-4, contexts pid 12 sh\n"
            "    user stack of pid 12 sh and 1 more, 640 bytes in 10 allocations\n"
            "        inner (inlined)  user/libc/a.h:1\n        write  user/libc/file.c:2\n        0x402000 [/bin/sh]\n") in told
    assert "LEAKED: 256 bytes of chan by walk, from 4 stacks, alive in 4 of 5 runs\n" in told
    assert "not repeated (not counted): 1 stacks" in told
    assert "what is not known:\n    all is doubtful\n" in told
    assert told.endswith("\nleak\n")


# A failure of the leak test itself: scripts/guest is not reached, or is a file that plays it.


@pytest.fixture
def played(tmp_path, monkeypatch):
    """leaktest in a copy of the checkout whose scripts/guest writes what is given and ends with a status."""
    def run(output=b"", status=0, errors=b"", command="true"):
        (tmp_path / "scripts").mkdir(exist_ok=True)
        (tmp_path / "scripts/leaktest").write_bytes((ROOT / "scripts/leaktest").read_bytes())
        if not (tmp_path / "tools").exists():
            (tmp_path / "tools").symlink_to(ROOT / "tools")
        (tmp_path / "out").write_bytes(output)
        (tmp_path / "err").write_bytes(errors)
        guest = tmp_path / "scripts/guest"
        guest.write_text(f"#!/bin/sh\ncat {tmp_path}/err >&2; cat {tmp_path}/out; exit {status}\n")
        guest.chmod(0o755)
        run = subprocess.run(["python3", str(tmp_path / "scripts/leaktest"), "--report", str(tmp_path / "report"), command], capture_output=True,
                             check=False)
        return run.returncode, run.stdout, text(run.stderr), (tmp_path / "report").read_bytes()
    return run


@pytest.mark.parametrize("output, status, why", [
    (b"", 0, "the guest's output is incomplete"), (b"", 3, "the guest ended with status 3"),
    (b"leaktest dump\n\x89STELE\r\n", 0, "not a trace dump"), (b"what\n", 0, "unexpected output: b'what'"),
], ids=["nothing", "failed", "cut", "strange"])
def test_a_failure_of_its_own_is_one_line_and_2(played, output, status, why):
    assert played(output, status) == (2, b"", f"leaktest: {why}\n", f"leaktest: {why}\n".encode())


def test_a_command_longer_than_an_argument():
    result = leaktest("true " + "x" * 131000)
    assert (result.status, result.stdout, result.stderr) == (2, "", "leaktest: the command is longer than an argument may be\n")


def test_memory_that_runs_out_has_a_report(played):
    output = f"leaktest counts\n{COUNTS}leaktest end\nleaktest counts\n{COUNTS}{MORE.format(size=640000, live=10000, traced='on')}leaktest end\n".encode()
    status, told, _, written = played(output, 137, b"[    1.2] pid 5 sh: out of memory at 0x401000\n", command=b"true \xff")
    assert (status, told) == (2, written)
    assert b"leak test of: true \xff\n" in told
    assert b"    640000 bytes in 10000 allocations of NAME\n" in told


# Lines.

SOURCE = """
extern "C" int leaf(int);
struct Maker { template <typename T> __attribute__((always_inline)) static T make(T a) { return leaf(a) + 1; } };
namespace { __attribute__((always_inline)) inline int middle(int a) {
  return Maker::make(a) + 2; } }
extern "C" int outer(int a) {
  return middle(a) + 3; }
int (*pointer())(int) { return [](int a) { return middle(a) + 4; }; }
"""


def test_inlined_functions_have_their_own_names(tmp_path):
    (tmp_path / "a.cc").write_text(SOURCE)
    subprocess.run(["g++", "-O2", "-g", "-c", "-o", str(tmp_path / "a.o"), "-ffreestanding", "a.cc"], cwd=tmp_path, check=True)
    subprocess.run(["ld", "-o", str(tmp_path / "a"), "--defsym=leaf=0x400000", "-e", "outer", "-Ttext=0x401000", str(tmp_path / "a.o")], check=True)
    listing = subprocess.run(["objdump", "-d", str(tmp_path / "a")], capture_output=True, text=True, check=True).stdout
    calls = [int(address, 16) for address in re.findall(r"^ +([0-9a-f]+):.*\tcall ", listing, re.M)]
    found = dwarf.places(str(tmp_path / "a"), [*calls, 0x10])
    assert sorted(found) == sorted(calls)
    stacks = [[(ksyms.plain_name(name).rpartition("::")[2], line) for name, file, line in place] for place in found.values()]
    assert all(file == str(tmp_path / "a.cc") for place in found.values() for _, file, _ in place)
    assert [("make", 3), ("middle", 5), ("outer", 7)] in stacks
    assert any(stack[:2] == [("make", 3), ("middle", 5)] and stack[2:] and all(line == 8 for _, line in stack[2:]) and stack[2][0] != "outer" for stack in stacks)


def test_a_program_s_function_has_file_and_line():
    folder = BUILD / "user/bin"
    if not (folder / "leakdemo").exists():
        pytest.skip("no program was built")
    address = next(int(line.split()[0], 16) for line in ksyms.nm(folder / "leakdemo") if line.endswith(" T main"))
    identity = build_id(folder / "leakdemo")
    places = ProgramLines(folder, ROOT).look_up([UserStack([], identity, "/bin/leakdemo", (address + 1, 0x10)), UserStack([], "0a1b", "/a", (address + 1,))])
    assert list(places) == [(identity, address + 1)]
    [(function, place)] = places[identity, address + 1]
    assert function == "main"
    assert re.search(r"^user/bin/leakdemo/leakdemo\.c:\d+$", place)


@pytest.fixture(scope="module")
def kernel_lines():
    """Look-ups in the kernel that was built."""
    elf = BUILD / "stele.elf"
    if not elf.exists():
        pytest.skip("no kernel was built")
    return SourceLines(elf, ROOT)


def test_a_kernel_function_has_file_and_line(kernel_lines):
    address = next(address for address, name in kernel_lines.symbols.functions if name == "sys_write")
    [(function, place)] = kernel_lines.look_up([address + 1])[address + 1]
    assert function == "sys_write+0x1"
    file, _, line = place.rpartition(":")
    assert "sys_write" in "".join((ROOT / file).read_text().splitlines()[int(line) - 1 : int(line) + 1])


def test_inlined_functions_do_not_have_their_caller_s_name(kernel_lines):
    """What GNU addr2line gives them here."""
    functions = kernel_lines.symbols.functions
    index = next(index for index, (_, name) in enumerate(functions) if name == "arena_alloc")
    found = dwarf.places(kernel_lines.elf, range(functions[index][0], functions[index + 1][0]))
    inlined = {name for place in found.values() for name, _, _ in place[:-1]}
    assert {place[-1][0] for place in found.values()} == {"arena_alloc"}
    assert "take" in inlined
    assert "arena_alloc" not in inlined


def test_what_is_unknown_has_no_line(kernel_lines):
    assert kernel_lines.look_up([0x10]) == {0x10: [("0x10", "")]}
