"""gdb's commands for unreachable objects, for references and for pointers to an object. In running guests and in cores, these commands print the
same as the guest's own files (#mem/unreachable, #mem/kmemtrace/ref.*, #mem/whatis)."""
import re

import pytest

from debugged import WAIT, gdb, gdb_on, waiting
from guest import BUILD, guest, sections_of, tool

pytestmark = [pytest.mark.cpus(1), pytest.mark.shares]
SMALL = ("--mem", "64M")

TRACED = ("tmp_node", "ref.chan", "ref.tmp_node", "debug_64")
ASK = """
echo == whatis
for node in $(sed -n 's/^\\t\\(0x[0-9a-f]*\\) size.*/\\1/p' #mem/kmemtrace/tmp_node); do { echo $node >&3; cat <&3; } 3<> #mem/whatis; done
"""
SCRIPT = WAIT + "".join(f"echo start > #mem/kmemtrace/{name}\n" for name in TRACED) + """
(mkdir /tmp/a; : > /tmp/a/b)
leakdemo leak 3
echo 'leak debug_64 10 depth=3' > #debug/alloc
echo 'leak kmalloc 2 size=100000' > #debug/alloc
echo check > #mem/kmemtrace/debug_1024; echo 'leak debug_1024 1' > #debug/alloc
sleep 1000 < /tmp/a/b &
wait_until_it_sleeps $!
""" + "".join(f"echo stop > #mem/kmemtrace/{name}\n" for name in TRACED) + ASK + "".join(f"echo == {name}; cat #mem/kmemtrace/{name}\n" for name in TRACED) + """
echo == unreachable; cat #mem/unreachable
echo == ready
sleep 1000
"""


@pytest.fixture(scope="module", name="looks")
def looks_at_a_guest(tmp_path_factory):
    """Returns (the guest's answers, gdb's answers while the guest runs, gdb's answers from its
    core)."""
    folder = tmp_path_factory.mktemp("alive")
    with waiting(SCRIPT, folder, *SMALL) as waits:
        nodes = [int(address, 16) for address in re.findall(r"^\t(0x[0-9a-f]+) size", waits.said["tmp_node"], re.M)]
        commands = ["kmem-unreachable", "kmem-refs chan", "kmem-refs ref.tmp_node", "kmem-trace ref.chan", "kmem-trace ref.tmp_node",
                    "kmem-whatis " + " ".join(f"{node:#x}" for node in nodes)]
        live = gdb_on(("--guest", waits.number), *commands)
        dump = tool("dump", "--guest", waits.number, folder / "core")
        assert (dump.status, dump.stderr) == (0, "")
    return waits.said, live, gdb(folder / "core", *commands)


def test_both_say_the_same(looks):
    _, live, core = looks
    ages = re.compile(r" \d+ ms ago|age ms min \d+ avg \d+ max \d+| age \d+")
    assert {command: ages.sub("", said) for command, said in live.items()} == {command: ages.sub("", said) for command, said in core.items()}


def test_what_nobody_can_reach(looks):
    """gdb prints the same report as the guest, except for the fields of the first line that only
    the guest has."""
    said, _, core = looks
    first, rest = said["unreachable"].split("\n", 1)
    first_of_gdb, rest_of_gdb = core["kmem-unreachable"].split("\n", 1)
    assert re.match(r"unreachable objects 16 bytes 207040 heads 16 live \d+ ", first), first
    assert re.fullmatch(r"unreachable objects 16 bytes 207040 heads 16 live \d+", first_of_gdb)
    assert rest_of_gdb == rest and "\tleak_at_depth+" in rest and "\t… 2 more\n" in rest


@pytest.mark.parametrize("name", ("ref.chan", "ref.tmp_node"))
def test_a_dump_of_references_is_what_it_was(looks, name):
    """gdb prints the same dump as the guest, with the location of each reference."""
    said, _, core = looks
    other = re.compile(r"age ms min \d+ avg \d+ max \d+| age \d+|untracked \d+ unmatched \d+")
    before, after = (other.sub("", text) for text in (said[name], core[f"kmem-trace {name}"]))
    assert after == before and before.count("\treference to 0x") > 2


def test_who_took_references_and_where_they_lie(looks):
    """gdb lists the same references as the dump, with the same locations."""
    said, _, core = looks
    text = core["kmem-refs chan"]
    live = int(re.search(r" live (\d+) ", said["ref.chan"])[1])
    assert re.match(rf"ref\.chan: \d+ references, of which the trace, stopped, knows {live}\n", text)
    objects = re.findall(r"^\treference to (0x\S+) ", said["ref.chan"], re.M)
    lines = re.findall(r"^\tto Chan (0x[0-9a-f]+): (.*); taken by pid \d+ sh \d+ ms ago$", text, re.M)
    assert sorted(address for address, _ in lines) == sorted(objects) and len(lines) == live
    known = re.compile(r"\.chans\[\d\] of FdTable 0x[0-9a-f]+ at \+0x[0-9a-f]+|\.file of VmRegion 0x[0-9a-f]+ at \+0x20")
    assert [line for line in lines if not known.fullmatch(line[1])] == []
    assert re.search(r"^    [0-9a-f]{16} fd_dup2\+0x[0-9a-f]+ kern/ns/fd_table\.cc:\d+$", text, re.M) and "core/ref.h" not in text
    nodes = core["kmem-refs ref.tmp_node"]
    for holder in (r"\.state of Chan", r"\.node of tmp::Entry"):
        assert re.search(rf"^\tto tmp::Node 0x[0-9a-f]+: {holder} 0x[0-9a-f]+ at \+0x[0-9a-f]+; taken by pid \d+ sh ", nodes, re.M), nodes


def answers_in(text):
    """Returns {address: explanation}."""
    return {answer.split()[0]: answer for answer in re.split(r"^(?=0x[0-9a-f]+ is )", text, flags=re.M) if answer}


def test_the_guest_says_it_without_names(looks):
    """#mem/whatis and gdb's kmem-whatis list the same objects as holders of pointers and as steps of the path. Only gdb names the fields."""
    said, live, _ = looks
    inside, outside = answers_in(said["whatis"]), answers_in(next(part for command, part in live.items() if "whatis" in command))
    assert len(inside) == 2 and inside.keys() == outside.keys()
    for address, answer in inside.items():
        for pattern in (r"^  pointed to by \S+ (0x\S+) ", r"→ [\w:]+ (0x[0-9a-f]+)"):
            found = [re.findall(pattern, text, re.M) for text in (answer, outside[address])]
            assert found[0] == found[1] and found[0], (pattern, answer, outside[address])


def test_why_an_object_is_alive(looks):
    """gdb lists all pointers to the object, and the shortest path to it, with the names of
    fields."""
    said, _, core = looks
    inner, outer = (re.search(rf"\n\t{function}\+[\s\S]*?\n\t(0x[0-9a-f]+) size", said["tmp_node"])[1] for function in ("path_open", "path_make"))
    about = answers_in(next(part for command, part in core.items() if "whatis" in command))
    [name] = re.findall(r"^  pointed to by tmp::Entry (0x[0-9a-f]+) \.node$", about[inner], re.M)
    [parent] = re.findall(r"^  pointed to by tmp::Entry (0x[0-9a-f]+) \.node$", about[outer], re.M)
    [chan] = re.findall(r"^  pointed to by Chan (0x[0-9a-f]+) \.state$", about[inner], re.M)

    def pointers(node):
        return set(re.findall(r"^  pointed to by (.*)$", about[node], re.M))

    in_its_name = {f"tmp::Entry {name} .{field}" for field in ("node", "of_node.next", "of_node.prev")}
    assert pointers(inner) == {f"Chan {chan} .state", *in_its_name}
    assert pointers(outer) == {f"tmp::Entry {parent} .{field}" for field in ("node", "of_node.next", "of_node.prev")} | {
        f"tmp::Entry {name} .{field}" for field in ("directory", "in_directory.next", "in_directory.prev")}
    # The shortest path to the file leads through the process that has opened it, not through the directories above it.
    assert re.search(rf"^  path: table\[\d+\] → Process \S+ \.fds → FdTable \S+ \.chans\[0\] → Chan {chan} \.state → tmp::Node {inner}$", about[inner], re.M)
    assert re.search(rf"^  path: device\.root_\.object → tmp::Node 0x[0-9a-f]+ \.children\.head_\.(next|prev) → tmp::Entry {parent} \.node → tmp::Node {outer}$",
                     about[outer], re.M)


def test_an_object_that_only_registers_know(tmp_path):
    """gdb stops the guest when kmem_cache_alloc returns a new object, whose address is only in registers. gdb finds the object through a
    register. After gdb has set the registers to 0, it finds no path to the object."""
    scratch = ("rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11")
    with waiting("echo == ready; while :; do leakdemo leak 1; done", tmp_path, *SMALL) as waits:
        text = gdb_on(("--guest", waits.number), "tbreak leaky_open", "continue", "tbreak kmem_cache_alloc", "continue", "finish", "print/x $rax",
                      "kmem-whatis $rax", "set var $unknown = $rax", *(f"set var ${name} = 0" for name in scratch), "kmem-whatis $unknown")
    address = re.search(r"= (0x[0-9a-f]+)", text["print/x $rax"])[1]
    assert "of leaky, which has 192 bytes: live\n" in text["kmem-whatis $rax"]
    assert "  pointed to by register rax of CPU 0\n" in text["kmem-whatis $rax"]
    assert f"  path: register rax of CPU 0 → leaky {address}\n" in text["kmem-whatis $rax"]
    assert set(re.findall(r"pointed to by register (\w+) of", text["kmem-whatis $rax"])) <= set(scratch)
    assert "pointed to by" not in text["kmem-whatis $unknown"] and "  no path from a root leads to it\n" in text["kmem-whatis $unknown"]


LOAD = "for i in 1 2 3 4; do (while :; do ls -l / | cat; : > /tmp/f$i; rm /tmp/f$i; done) > /dev/null & done; sleep 0.5\n"


NOTHING = "unreachable objects 0 bytes 0 heads 0 live "
# At the entry of these functions, an object's address may be only in a register.
MIDDLES = ("kmem_cache_free", "page_free", "kernel_stack_free")


@pytest.mark.cpus(4)
def test_nothing_is_lost_in_the_middle_of_things(tmp_path):
    with waiting(LOAD + "echo == ready; wait", tmp_path, *SMALL) as waits:
        commands = [word for place in MIDDLES for word in ("-ex", f"tbreak {place}", "-ex", "continue", "-ex", "kmem-unreachable")]
        run = tool("gdb", "--guest", waits.number, "--", "-batch", *commands)
    assert (run.status, run.stderr, run.stdout.count(NOTHING)) == (0, "", len(MIDDLES)), run


@pytest.mark.long
@pytest.mark.cpus(4)
def test_nothing_is_lost_wherever_a_guest_is_stopped(tmp_path):
    with waiting(LOAD + "echo == ready; wait", tmp_path, *SMALL) as waits:
        for _ in range(30):
            [text] = gdb_on(("--guest", waits.number), "kmem-unreachable").values()
            assert text.startswith(NOTHING), text


@pytest.mark.cpus(4)
def test_nothing_is_lost_in_a_panic(tmp_path):
    """In a panic an NMI stops the other CPUs at arbitrary instructions. No object may seem lost then."""
    result = guest(LOAD + "echo panic > #debug/ctl", *SMALL, "--core", str(tmp_path / "core"), log=False)
    assert result.status == 134
    said = gdb(tmp_path / "core", "kmem-unreachable", "tasks")
    assert said["kmem-unreachable"].startswith(NOTHING), said


def test_planted_bugs_in_a_core(tmp_path):
    """gdb finds the planted bugs in a core: an unreachable object and the objects that it keeps, a
    reference in a list that nobody empties, and a reference that is stored nowhere any more."""
    result = guest("cd /tmp; cd /\necho == unreachable; cat '#mem/unreachable'; echo panic > '#debug/ctl'", *SMALL, "--variant", "debug", "--cmdline",
                   "break=bind_spare,ref_list,ref_immortal trace=mount,ref.chan,ref.namespace", "--core", str(tmp_path / "core"), log=False, lost=["mount"])
    core = ("--kernel", str(BUILD / "variant/debug/stele.elf"), "--core", str(tmp_path / "core"))
    said = gdb_on(core, "kmem-unreachable", "kmem-refs chan", "kmem-refs namespace")
    before = sections_of(result.stdout)["unreachable"].split("\n", 1)[1]
    assert said["kmem-unreachable"].split("\n", 1)[1] == before and re.search(r" of mount keeps \d+ bytes in [1-9]\d* objects from stack\n", before)
    kept = re.findall(r"^\tto Chan (0x[0-9a-f]+): \+0x10 of (kmalloc_\d+ 0x[0-9a-f]+); taken by pid 2 sh ", said["kmem-refs chan"], re.M)
    assert len(kept) == 2 and "planted_directory_changed+" in said["kmem-refs chan"]
    assert re.search(r"^\tto Namespace 0x[0-9a-f]+: nowhere found; taken by pid 2 sh ", said["kmem-refs namespace"], re.M)
    # This reference is on the kernel stack of the process whose write to #debug/ctl caused the panic.
    assert re.search(r": at 0x[0-9a-f]+, the kernel stack of task \d+ sh, pid 2, running on CPU 0, 0x[0-9a-f]+ bytes below its top, in sys_write; taken by pid 2 sh ",
                     said["kmem-refs chan"])
    [directory, holder] = kept[0]
    path = gdb_on(core, f"kmem-whatis {holder.split()[1]}", f"kmem-whatis {directory}")
    assert re.search(rf"  path: visited\.head_\.(next|prev) → {holder}\n", path[f"kmem-whatis {holder.split()[1]}"])
    assert f"  pointed to by {holder} +0x10\n" in path[f"kmem-whatis {directory}"]
