"""How the leak sweep reads its guests' output (tools/stele/sweep.py), and failures of
scripts/leaksweep itself."""
import os
import subprocess
from types import SimpleNamespace

import pytest

from checkout import with_guest
from guest import BUILD, text, tool
from stele.leaks import CLEAN, LEAKED, UNKNOWN
from stele.sweep import Leak, Swept, read, report
from stele.tracedump import Context, Record, Stack, TraceDumpError

CLEAN_RUNS = b"leaksweep clean 3 2 12\n"
FIRST = (b"leaksweep try 1 1\nleaksweep try 1 3\nleaksweep leak 1 3\nleaksweep rise chan 1 104\nleaksweep rise page 2 8192\n"
         b"leaksweep failed kmalloc_128 100 37 a name\nleaksweep frame ffffffff80101234\nleaksweep frame ffffffff80105678\n"
         b"leaksweep try 1 5\nleaksweep passed 1 5\n")
SECOND = b"leaksweep try 2 1\nleaksweep hung 2 1\nleaksweep once 2 1\nleaksweep rise vm_region 1 64\nleaksweep try 2 3\nleaksweep passed 2 3\n"
END = b"leaksweep end\n"


class Kernel:
    """A fake kernel. For each address, look_up() returns path_open and a function of the allocator that is inlined in path_open."""

    def look_up(self, frames):
        return {frame: [("ObjectCache::make", "kern/include/kmalloc.h:44"), (f"path_open+{frame & 0xfff:#x}", "kern/ns/path.cc:12")] for frame in frames}


PROGRAMS = SimpleNamespace(look_up=lambda stacks: {})


def told(swept, doubts=()):
    return report("true", swept, list(doubts), Kernel(), PROGRAMS)


def test_what_a_guest_says():
    swept = read(CLEAN_RUNS + FIRST + SECOND + END)
    assert (swept.status, swept.processes, swept.tried, swept.counts, swept.hung, swept.ended) == ("3", 2, 3, {1: 4, 2: 2}, [(2, 1)], True)
    [leak] = swept.leaks
    assert (leak.process, leak.allocation, leak.rises) == (1, 3, [("chan", 1, 104), ("page", 2, 8192)])
    assert (leak.source, leak.size, leak.name, leak.frames) == ("kmalloc_128", 100, "a name", [0xffffffff80101234, 0xffffffff80105678])
    assert [(once.process, once.allocation) for once in swept.once] == [(2, 1)]


@pytest.mark.parametrize("size", range(0, len(CLEAN_RUNS + FIRST), 7))
def test_output_that_ends_anywhere_is_read_so_far(size):
    swept = read((CLEAN_RUNS + FIRST)[:size])
    assert not swept.ended
    assert told(swept, ["it was cut"])[0] == (LEAKED if swept.leaks else UNKNOWN)


@pytest.mark.parametrize("output", (b"nonsense\n", b"leaksweep what 1 2\n", b"\xff\n", b"leaksweep try 1\n", b"leaksweep frame 12\n", b"leaksweep dump x\n",
                                    b"leaksweep dump 3\nabc"))
def test_output_of_somebody_else(output):
    with pytest.raises(TraceDumpError):
        read(CLEAN_RUNS + output)


def test_guests_are_added_up():
    total = Swept()
    total.add(read(CLEAN_RUNS + SECOND))
    total.add(read(CLEAN_RUNS + FIRST.replace(b"passed 1 5", b"passed 1 6")))
    total.add(read(CLEAN_RUNS + b"leaksweep try 1 2\nleaksweep try 1 4\nleaksweep passed 1 4\n"))
    assert (total.tried, total.counts, total.processes, len(total.leaks)) == (4, {1: 3, 2: 2}, 2, 1)


def test_a_leak_is_named():
    status, said = told(read(CLEAN_RUNS + FIRST + FIRST.replace(b"leak 1 3", b"leak 2 9") + END))
    assert status == LEAKED
    assert "LEAKED: failing allocation 3 of process 1 (a name), in path_open, leaks 8192 bytes of page and 104 bytes of chan\n" in said
    assert "the allocation that fails, 100 bytes of kmalloc_128:\n    path_open+0x234  kern/ns/path.cc:12\n" in said
    assert said.count("LEAKED:") == 1
    assert "the same: allocation 9 of process 2\n" in said
    assert said.startswith("LEAK\nleak sweep of: true\n")


def test_what_is_no_leak_is_shown():
    status, said = told(read(CLEAN_RUNS + SECOND + END))
    assert status == CLEAN
    assert "hung and were killed (not counted): at allocation 1 of process 2\n" in said
    assert "not repeated (not counted):\n    allocation 1 of process 2: 64 bytes of vm_region\n" in said
    assert said.startswith("CLEAN\nleak sweep of: true\n")


@pytest.mark.parametrize("lines, doubt", [
    (b"leaksweep unrepeated 1 3\nleaksweep rise chan 1 104\nleaksweep rise page 2 8192\n",
     "could not repeat the failure that left 8192 bytes of page and 104 bytes of chan: allocation 3 of process 1"),
    (b"leaksweep try 2 7\nleaksweep cut 2 7\n", "process 2 was killed before its allocation 7 came: it may make more"),
    (b"leaksweep stuck 1 3\nleaksweep stuck 1 5\n", "the command hung even without a failure, after the failure of allocation 3, 5 of process 1"),
], ids=["unrepeated", "cut", "stuck"])
def test_what_was_not_seen_is_doubted(lines, doubt):
    total = Swept()
    total.add(read(CLEAN_RUNS + lines + END))
    assert (total.tried, total.counts) == (0, {})
    status, said = told(total)
    assert status == UNKNOWN
    assert said.startswith(f"UNKNOWN\nleak sweep of: true\nwhat is not known:\n    {doubt}\n")
    assert told(read(CLEAN_RUNS + FIRST + lines + END))[0] == LEAKED


def test_a_command_that_sways():
    assert read(END).sways
    assert not read(b"").sways and not read(CLEAN_RUNS + END).sways and not read(b"leaksweep grows tmp_node 1 152\n" + END).sways


@pytest.mark.parametrize("sways, status", [("12", 2), ("2", 2), ("", 0)], ids=["both", "one", "none"])
def test_guests_that_sweep_nothing(tmp_path, sways, status):
    """The sweep starts two guests, which are fakes. The guests whose numbers are in `sways` print no
    line `leaksweep clean`. A guest that prints no such line has swept nothing, because the memory that
    the command leaves allocated varies from run to run even if no allocation fails."""
    tool = with_guest(tmp_path, "leaksweep", f"""
case "$*" in *"--share "[{sways or 0}]/2*) ;; *) echo leaksweep clean 0 1 12 ;; esac
echo leaksweep end""")
    run = subprocess.run(["python3", tool, "--no-build", "--jobs", "2", "--report", "/dev/null", "true"],
                         env={**os.environ, "STELE_BUILD": str(BUILD)}, capture_output=True, check=False)
    assert run.returncode == status, run
    assert ("what the command leaves behind varies even without a failure" in text(run.stdout + run.stderr)) == bool(sways)


def test_a_panic_is_found():
    swept = read(CLEAN_RUNS + END)
    swept.panics.append(((2, 7), ["panic: at last", "  somewhere"]))
    status, said = told(swept)
    assert status == LEAKED
    assert "PANIC: failing allocation 7 of process 2 panics the kernel:\n    panic: at last\n      somewhere\n" in said
    assert said.startswith("PANIC\n")


@pytest.mark.parametrize("status, expected, verdict", [(0, [], CLEAN), (1, [], CLEAN), (126, [], UNKNOWN), (127, [], UNKNOWN), (139, [], UNKNOWN),
                                                       (1, [0], UNKNOWN), (139, [139], CLEAN)])
def test_a_command_that_does_not_work_is_not_clean(status, expected, verdict):
    swept = read(CLEAN_RUNS.replace(b"clean 3 ", b"clean %d " % status) + END)
    assert report("true", swept, [], Kernel(), PROGRAMS, expected)[0] == verdict


def test_growth_without_failures_says_nothing():
    status, said = told(read(b"leaksweep grows tmp_node 1 152\n" + END))
    assert status == UNKNOWN
    assert "the command leaves something without any failure (make leaktest says what): 152 bytes of tmp_node\n" in said


def test_an_incomplete_sweep_says_nothing():
    assert told(read(CLEAN_RUNS), ["guest 1 ended"])[0] == UNKNOWN


def test_what_the_sweep_s_own_program_has_is_left_out():
    contexts = {1: Context(1, "process", 12, "leaksweep", "/bin/leaksweep", ""), 2: Context(2, "process", 15, "leaksweep", "/bin/leaksweep", "")}
    source = SimpleNamespace(name="page", kind="arena", options={}, records=[Record(0x1000 * i, 4096, 0, 1, i) for i in (1, 2)])
    other = SimpleNamespace(name="chan", kind="cache", options={}, records=[Record(0x100, 104, 0, 1, 2)])
    dump = SimpleNamespace(contexts=contexts, sources=[source, other], stacks={1: Stack(1, "kernel", (0xffffffff80101234,))},
                           context_name=lambda number: str(contexts[number]))
    [group] = Leak(1, 3, [("page", 1, 4096)], dump=dump, sweeper=12).left_behind(Kernel())
    assert (group.name, group.bytes, group.contexts) == ("page", 4096, ["pid 15 leaksweep"])


def test_leaks_at_one_place_have_one_key():
    one, other = Leak(1, 2, [("a", 1, 8), ("b", 1, 8)], frames=[1, 2]), Leak(3, 4, [("b", 2, 16), ("a", 1, 8)], frames=[1, 2])
    assert one.key == other.key
    assert one.key != Leak(1, 2, [("a", 1, 8)], frames=[1, 2]).key


@pytest.mark.parametrize("arguments, why", [
    ([], "required: command"), ([" "], "no command: make leaksweep CMD='COMMAND'"), (["--jobs", "0", "true"], "--jobs is from 1 to 64"),
    (["--limit", "0", "true"], "--limit is from 1 to 3600"), (["--variant", "none-such", "--no-build", "true"], "leaksweep: "),
], ids=lambda value: " ".join(value) if isinstance(value, list) else "")
def test_bad_input(arguments, why):
    run = tool("leaksweep", *arguments)
    assert run.status == 2
    assert why in run.stderr
    assert run.stdout in ("", f"UNKNOWN\nleak sweep of: true\nwhat is not known:\n    {run.stderr.removeprefix('leaksweep: ')}")
