"""gdb's commands on stopped guests and cores print the same as the guest itself."""
import os
import re
import subprocess

import pytest

from debugged import WAIT, gdb, group_of, objects_in, symbols, waiting, whatis
from guest import BUILD, ROOT, dumps_in, guest, leaktest, sections_of, tool
from stele.call_frames import RBP, RSP, frame_addresses

pytestmark = [pytest.mark.cpus(1), pytest.mark.shares]
SMALL = ("--mem", "64M")

# The script DUMPS makes traces that have all kinds of records: several stacks, marks, contexts, user stacks,
# sampled objects, large objects, and more objects than a text dump shows.
TRACED = ["debug_64", "debug_1024", "chan", "page", "vm_region", "kmalloc_512"]
DUMPS = WAIT + """
echo start > #mem/kmemtrace/ctl
for word in stop reset 'start sample=4K'; do echo $word > #mem/kmemtrace/kmalloc_512; done
echo 'stop
reset' > #mem/kmemtrace/kmalloc_16
echo 'leak debug_64 5 depth=5' > #debug/alloc
echo 'leak kmalloc_512 200' > #debug/alloc
echo mark > #mem/kmemtrace/ctl
echo 'leak debug_64 7' > #debug/alloc
echo 'leak debug_64 2 irq' > #debug/alloc
echo 'leak debug_1024 120' > #debug/alloc
for i in 1 2 3 4 5 6 7 8 9 10; do (echo 'leak debug_64 1 depth=2' > #debug/alloc); done
sleep 1000 &
echo mark > #mem/kmemtrace/ctl; echo mark > #mem/kmemtrace/ctl
echo 'leak debug_64 2 depth=5' > #debug/alloc
wait_until_it_sleeps $!
echo stop > #mem/kmemtrace/ctl
""" + "".join(f"echo == {name}; cat #mem/kmemtrace/{name}\n" for name in TRACED)


@pytest.fixture(scope="module")
def panicked(tmp_path_factory):
    """Returns (the result of a guest that panicked, the path of the guest's core)."""
    core = tmp_path_factory.mktemp("core") / "core"
    result = guest(DUMPS + "echo == end; cat #mem/kmemstat; echo panic > #debug/ctl", *SMALL, "--core", str(core), log=False)
    assert result.status == 134
    assert "kernel panic: requested through #debug/ctl" in result.stderr
    assert f"guest: the memory of the kernel that panicked is in {core}\n" in result.stderr
    return result, core


@pytest.fixture(scope="module")
def said(panicked):
    """gdb's output about the core."""
    return gdb(panicked[1], *(f"kmem-trace {name}" for name in TRACED), "kmem-trace kmalloc_16", "kmem-caches", "tasks", "bt sh", "bt sleep", "bt reaper")


AGES = re.compile(r"age ms min \d+ avg \d+ max \d+|age \d+")
# After the guest has printed a dump, it frees more objects that were allocated before the trace. So
# these counters are larger in the core than in the dump.
AFTER_STOP = re.compile(r"untracked \d+ unmatched \d+")


def later(dump):
    """Removes the parts of a dump that change with time."""
    return AFTER_STOP.sub("", AGES.sub("", dump))


@pytest.mark.parametrize("name", TRACED)
def test_a_dump_is_what_it_was(panicked, said, name):
    before, after = sections_of(panicked[0].stdout)[name], said[f"kmem-trace {name}"]
    assert later(after) == later(before)
    [dump] = dumps_in(after)
    assert dump.broken_identities() == []
    # All ages grow by the same amount.
    ages = [[int(age) for age in re.findall(r"age (?:ms min )?(\d+)", part)] for part in (before, after)]
    assert ages[0] and len({new - old for old, new in zip(*ages, strict=True)}) == 1
    if name in ("debug_64", "debug_1024", "kmalloc_512"):
        assert dump.counters["live"] > 0 and dump.groups[0].user_stacks
    if name == "debug_64":
        assert ", … 2 more\n" in after and "marks 0-1,3," not in after


def test_a_sampled_trace_is_estimated(said):
    [dump] = dumps_in(said["kmem-trace kmalloc_512"])
    assert dump.header["sample"] == "4096"
    assert dump.groups[0].estimated[1] > dump.groups[0].objects > 0


def test_caches_are_those_of_kmemstat(panicked, said):
    """kmem-caches in the core equals #mem/kmemstat of the guest, except in caches that the last cat and the echo that panicked have used."""
    before, after = (part.splitlines() for part in (sections_of(panicked[0].stdout)["end"], said["kmem-caches"]))
    assert after[0] == before[0]
    names = [[line.split()[0] for line in part] for part in (before, after)]
    assert names[0] == names[1] and len(names[0]) > 50
    quiet = [line for line in before if re.match(r" *(debug_\d|kmalloc_(512|3072)|pipe|tmp_|mount|namespace|leaky)", line)]
    assert len(quiet) > 8 and set(quiet) <= set(after)


def test_the_report_says_the_same(panicked, said):
    """scripts/report on the core counts the same bytes and objects of each cache as the dump that gdb prints."""
    run = tool("report", "--by", "cache", panicked[1])
    assert (run.status, run.stderr) == (0, "")
    found = {words[2]: (int(words[0]), int(words[1])) for words in map(str.split, run.stdout.partition("\n\n")[2].splitlines()[1:])}
    for name in TRACED:
        [dump] = dumps_in(said[f"kmem-trace {name}"])
        assert found[name] == (dump.counters["estimated_bytes"], dump.counters["estimated_objects"])


def test_a_trace_that_is_off(said):
    assert said["kmem-trace kmalloc_16"] == "kmemtrace kmalloc_16 state off objsize 16\nto trace it: echo start > #mem/kmemtrace/kmalloc_16\n"


def test_tasks(said):
    tasks = {words[4]: words for words in map(str.split, said["tasks"].splitlines()[1:])}
    assert tasks["sh"][1:3] == ["2", "running"] and tasks["init"][1:3] == ["1", "sleeping"]
    assert {"reaper", "memory", "sweeper", "sleep", "idle0"} <= set(tasks)
    assert tasks["reaper"][1] == "-" and tasks["sleep"][2] == "sleeping"


def functions(backtrace):
    return re.findall(r"^    (?:[0-9a-f]{16}|\s+inlined) ([\w:]+)", backtrace, re.M)


def test_backtraces(panicked, said):
    """For the task that panicked, gdb shows the same functions as the backtrace that the panic printed. For a sleeping task, gdb shows
    WaitQueue::sleep and its callers. The reaper's backtrace ends at the first function of a task."""
    running = functions(said["bt sh"])
    shown = re.findall(r"^    [0-9a-f]{16} (\S+)\+", panicked[0].stderr, re.M)
    assert running[running.index("panic") + 1:][-len(shown) + 1:] == shown[1:]
    assert "kern/core/panic.cc:" in said["bt sh"] and "--- from user mode, rip " in said["bt sh"]
    assert "WaitQueue::sleep" in functions(said["bt sleep"]) and "sys_nanosleep" in functions(said["bt sleep"])
    assert functions(said["bt reaper"])[-2:] == ["task_begin", "context_start"]


NOWHERE = 0x7fff00000000  # an address in no function; 0 would be the address of the functions that the linker has dropped


def test_where_the_caller_is():
    """A function begins with a five-byte nop, push %rbp, and mov %rsp, %rbp. Before and after each of these instructions, frame_addresses()
    returns the register and the offset that give the function's canonical frame address."""
    entry = symbols(BUILD / "stele.elf")["kernel_main"]
    assert frame_addresses(BUILD / "stele.elf", [entry, entry + 5, entry + 6, entry + 9, NOWHERE]) == {
        entry: (RSP, 8), entry + 5: (RSP, 8), entry + 6: (RSP, 16), entry + 9: (RBP, 16)}


def test_a_machine_that_resets(tmp_path):
    """QEMU says nothing when a triple fault resets the machine; the core shows what each CPU did."""
    core = tmp_path / "core"
    result = guest("echo reboot > '#cons/power'", *SMALL, "--core", str(core), log=False)
    assert result.status == 125
    assert f"guest: the memory of the machine that was reset, as by a triple fault, is in {core}\n" in result.stderr
    assert "machine_reset+0x" in gdb(core, "bt sh")["bt sh"]


def test_what_is_no_core(panicked, tmp_path):
    """scripts/whatis prints one line and exits with status 2 if the core or the expression is unusable."""
    core = panicked[1]
    foreign, cut, none = tmp_path / "foreign", tmp_path / "cut", tmp_path / "none"
    foreign.write_text("no core" * 100)
    with open(core, "rb") as file:
        cut.write_bytes(file.read(1 << 20))
    for path, why in ((foreign, "not a core of x86-64"), (cut, "cut off: it has 1048576 bytes of "), (none, "No such file or directory"),
                      (BUILD / "stele.elf", "not a core of x86-64")):
        result = whatis("--core", str(path), "page_arena")
        assert (result.status, result.stdout, result.stderr.count("\n")) == (2, "", 1)
        assert f"whatis: {path}: {why}" in result.stderr
    other = whatis("--core", str(core), "--kernel", str(BUILD / "variant/debug/stele.elf"), "page_arena")
    assert (other.status, other.stderr.count("\n")) == (2, 1) and "no core of a kernel that is here" in other.stderr
    bad = whatis("--core", str(core), "no_such_thing")
    assert (bad.status, bad.stdout, bad.stderr) == (2, "", 'kmem-whatis: No symbol "no_such_thing" in current context.\n')


def test_what_cannot_be_asked(panicked, tmp_path):
    """gdb prints one line for each bad command."""
    words = ["kmem-refs nope", "kmem-refs", "kmem-unreachable now", "kmem-trace nope"]
    run = tool("gdb", "--core", panicked[1], "--", "-batch", *(word for each in words for word in ("-ex", each)))
    assert re.fullmatch(r"kmem-refs: no class of references is called nope: there are ref\.chan .*\nkmem-refs CLASS\nkmem-unreachable\n"
                        r"kmem-trace: no cache is called nope, .*\n", run.stderr), run
    run = tool("gdb", "--core", panicked[1], "--kernel", BUILD / "stele.elf", "--", "-batch", "-ex", "kmem-unreachable",
               env={**os.environ, "STELE_BUILD": str(tmp_path)})
    assert run.stderr == f"kmem-unreachable: {tmp_path}/tools/stele-reach: No such file or directory: make builds it\n", run
    (tmp_path / "unicorn.py").write_text("raise ImportError")
    run = tool("gdb", "--core", panicked[1], "--", "-batch", "-ex", "kmem-caches", env={**os.environ, "PYTHONPATH": str(tmp_path)})
    assert (run.stdout, run.stderr) == ("", "kmem-caches: the Python module unicorn is missing: scripts/setup gdb installs it\n"), run


# --- Explanations of addresses. The guest prints dumps and statistics, and then waits. From these
# dumps and statistics, expected() derives how gdb should explain each address.

KINDS = WAIT + """
echo check > #mem/kmemtrace/debug_1024
echo overrun debug_1024 > #debug/crime
echo 'leak debug_1024 2' > #debug/alloc
echo 'leak debug_64 100 depth=3' > #debug/alloc; echo 'free debug_64 100' > #debug/alloc
echo start > #mem/kmemtrace/ctl
echo 'leak debug_64 100 depth=3' > #debug/alloc; echo 'leak debug_64 60 depth=4' > #debug/alloc
echo == all; cat #mem/kmemtrace/debug_64
echo 'free debug_64 120' > #debug/alloc
echo 'leak debug_1024 1' > #debug/alloc
sleep 1000 &
wait_until_it_sleeps $!
echo stop > #mem/kmemtrace/ctl
echo == live; cat #mem/kmemtrace/debug_64
echo == checked; cat #mem/kmemtrace/debug_1024
echo == page; cat #mem/kmemtrace/page
echo == kernel_virtual; cat #mem/kmemtrace/kernel_virtual
echo == slab_stats; cat #mem/slab_stats
echo == ready
sleep 1000
"""


def expected(said, log, kernel):
    """Returns {address: pattern of the first line of gdb's explanation}, for addresses of all kinds. `said` is the guest's output by section,
    `log` the kernel's log, `kernel` the ELF file."""
    live, all_64 = set(objects_in(said["live"])), objects_in(said["all"])
    assert len(live) == 40 and len(all_64) == 160 and live <= set(all_64)
    wanted = {address: rf"the object {address:#x} of debug_64, which has 64 bytes: " + ("live" if address in live else "free, in .*") for address in all_64}
    inner = min(live)
    wanted[inner + 9] = rf"0x9 bytes into the object {inner:#x} of debug_64, which has 64 bytes: live"
    page = inner & ~0xfff
    wanted[page + 0xfff] = rf"0x37 bytes into the slab structure {page + 0xfc8:#x} of the slab {page:#x} of debug_64 with \d+ of \d+ objects out"
    [damaged] = {int(address, 16) for address in re.findall(r"object (0x[0-9a-f]+)", log)}
    wanted[damaged] = rf"the object {damaged:#x} of debug_1024, which has 1024 bytes: in quarantine"
    [checked] = objects_in(said["checked"])
    wanted[checked + 1023] = rf"0x3ff bytes into the object {checked:#x} of debug_1024, which has 1024 bytes: live"
    wanted[checked + 1024] = r"in the checked slab 0x[0-9a-f]+ of debug_1024 with \d+ of \d+ objects out, behind an object"
    stacks = group_of(said["page"], "task_create")
    wanted[stacks[0] + 0x3ff8] = r"the direct map of 0xffffc[0-9a-f]+, the kernel stack of task \d+ sleep, pid \d+, sleeping on CPU \d"
    [virtual] = group_of(said["kernel_virtual"], "task_create")[-1:]
    wanted[virtual + 0x4000] = r"the kernel stack of task \d+ sleep, pid \d+, sleeping on CPU \d, 0x1000 bytes below its top"
    wanted[virtual + 0x10] = r"the guard page below the kernel stack of task \d+ sleep, pid \d+, sleeping on CPU \d"
    user = group_of(said["page"], "AddressSpace::fault")[-1]
    wanted[user + 1] = rf"0x1 bytes into the allocation {user:#x} from the arena page, 4096 bytes by way of page_4096: live: a page of programs, which 1 .*"
    wanted[symbols(kernel)["kernel_main"] + 1] = r"code: kernel_main\+0x1 kern/main.cc:\d+"
    wanted[symbols(kernel)["page_arena"]] = r"data: page_arena in \.bss"
    base = symbols(kernel)["text_start"] - 0xffffffff80000000
    wanted[0xffff800000000000 + base] = r"the direct map of 0xffffffff80[0-9a-f]+, code: .*"
    wanted[0x401000] = r"an address of user space"
    wanted[0xffffffffffff0000] = wanted[0xffff900000000000] = wanted[0xffffc0ffffff0000] = r"nothing"
    return wanted


def check(answers, wanted, said):
    assert answers.status == 0 and answers.stderr == ""
    first = dict(re.findall(r"^(0x[0-9a-f]+) is (.*)$", answers.stdout, re.M))
    wrong = {f"{address:#x}": (first.get(f"{address:#x}"), pattern) for address, pattern in wanted.items()
             if not re.fullmatch(pattern, first.get(f"{address:#x}", ""))}
    assert wrong == {}
    # gdb finds as many free objects in magazines and in the depot as slab_stats says, and a record of each live object.
    [words] = [line.split() for line in said["slab_stats"].splitlines() if line.startswith("debug_64 ")]
    free = [answer for answer in first.values() if "of debug_64" in answer and "bytes: free" in answer]
    assert len(free) == 120
    assert sum("magazine" in answer for answer in free) == int(words[5])
    assert sum("the depot" in answer for answer in free) == int(words[6]) * int(words[7]) > 0
    assert answers.stdout.count("  allocated by pid 2 sh ") >= 41 and "leak_at_depth+" in answers.stdout


@pytest.mark.parametrize("variant", ["", pytest.param("debug", marks=[pytest.mark.long, pytest.mark.cpus(4)])])
def test_whatis_of_a_guest_that_runs_and_of_its_dump(tmp_path, variant):
    """gdb explains more than a hundred addresses correctly, in a running guest and in the core of that guest."""
    with waiting(KINDS, tmp_path, *SMALL, *(["--variant", variant] if variant else [])) as waits:
        wanted = expected(waits.said, waits.log, BUILD / "variant" / variant / "stele.elf" if variant else BUILD / "stele.elf")
        words = [f"{address:#x}" for address in wanted]
        live = whatis("--guest", waits.number, *words)
        dump = tool("dump", "--guest", waits.number, tmp_path / "core")
        assert (dump.status, dump.stderr) == (0, "")
        tasks = tool("gdb", "--guest", waits.number, "--", "-batch", "-ex", "tasks")
    check(live, wanted, waits.said)
    check(whatis("--core", str(tmp_path / "core"), *words), wanted, waits.said)
    assert re.search(r"^ +\d+ +2 sleeping +\d+ sh ", tasks.stdout, re.M)


# --- Programs that write cores or stop guests.

def test_leaktest_leaves_a_core(tmp_path):
    """If the kernel panics in the first traced run, the leak test leaves a core that has the trace of that run."""
    report = tmp_path / "report.txt"
    (tmp_path / "report.core").write_text("of another day")
    command = "echo leak debug_64 3 > '#debug/alloc'; [ -e /tmp/once ] && echo panic > '#debug/ctl'; echo > /tmp/once"
    run = leaktest(command, "--quick", *SMALL, "--report", report)
    assert run.status == 2
    assert run.stderr.endswith(f"leaktest: the kernel panicked: its memory is in {tmp_path}/report.core, which scripts/gdb --core opens\n")
    [dump] = dumps_in(gdb(tmp_path / "report.core", "kmem-trace debug_64")["kmem-trace debug_64"])
    assert dump.header["state"] == "running" and dump.counters["live"] == 3
    assert dump.groups[0].frames[0].startswith("leak_at_depth+")


def test_a_guest_is_booted_under_gdb():
    result = tool("gdb", "--boot", "--smp", "1", *SMALL, "--", "-batch", "-ex", "bt", "-ex", "list", "-ex", "tasks", "-ex", "kmem-unreachable",
                  stdin=subprocess.DEVNULL)
    assert "#0  kernel_main (protocol=0, " in result.stdout
    assert "void kernel_main(uint32_t protocol, uint32_t information) {" in result.stdout, "no source"
    assert result.stdout.partition(" TASK\n")[2].partition("[ ")[0] == "", "there are no tasks yet"
    assert "kmem-unreachable: there are no objects yet: the kernel is still booting\n" in result.stderr


@pytest.mark.long
@pytest.mark.cpus(4)
def test_a_panic_stops_under_gdb(tmp_path):
    """gdb types a command that makes the kernel panic. The panic stops the guest under gdb, and scripts/dump writes a core of the guest. The guest
    ends when gdb continues it."""
    commands = ["type echo panic > '#debug/ctl'", "continue", "bt sh", "kmem-caches", f"shell {ROOT}/scripts/dump {tmp_path}/core", "continue"]
    result = tool("gdb", "--boot", "--smp", "4", *SMALL, "--", "-batch", *(word for command in commands for word in ("-ex", command)),
                  stdin=subprocess.DEVNULL, timeout=120)
    assert "kernel panic: requested through #debug/ctl" in result.stdout
    assert "DebugDevice::control" in result.stdout and "debug_1024  " in result.stdout
    assert "power_off" in gdb(tmp_path / "core", "bt sh")["bt sh"]
