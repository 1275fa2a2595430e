"""Tests of tools/reach, the program that searches the memory in a core. Stele's commands for gdb run
this program. The tests write the core and a description of its contents; the program reads both."""
import struct
import subprocess

import pytest

from guest import BUILD

PROGRAM = BUILD / "tools/stele-reach"
PAGE, PAGES = 4096, 48
DIRECT, IMAGE, STACK = 0xffff800000000000, 0xffffffff80000000, 0xffffc00000001000
# Page frame numbers: which frame has which contents.
STATIC, SLAB, SPACES, USER_TABLES, USER, STACK_MEMORY, KERNEL_TABLES, FREE, LOST_PAGE, BY_PHYSICAL = 2, 3, 4, 10, 20, 25, 30, 40, 41, 42
DESCRIPTORS = 5  # frame with the page descriptors. The descriptor of a frame has the address of its slab and the number of its mappings, in 16 bytes
REGISTERS = 0x1000


def item(number):
    """Returns the address of an object of 64 bytes."""
    return DIRECT + SLAB * PAGE + 64 * number


class Memory:
    def __init__(self):
        self.bytes = bytearray(PAGES * PAGE)

    def put(self, address, *words):
        struct.pack_into(f"<{len(words)}Q", self.bytes, address - DIRECT, *words)

    def map(self, root, address, frame):
        """Maps the page at `address` to `frame`. The four page tables are in the frames from `root`
        on."""
        for level in range(4):
            index = address >> 39 - 9 * level & 511
            self.put(DIRECT + (root + level) * PAGE + 8 * index, (frame if level == 3 else root + level + 1) * PAGE | 7)

    def core(self, path):
        """Writes a core like QEMU's, but without the notes."""
        header = b"\x7fELF\x02\x01\x01".ljust(16, b"\0") + struct.pack("<HHIQQQIHHHHHH", 4, 62, 1, 0, 64, 0, 0, 64, 56, 1, 0, 0, 0)
        segment = struct.pack("<IIQQQQQQ", 1, 7, 64 + 56, DIRECT, 0, len(self.bytes), len(self.bytes), 0)
        path.write_bytes(header + segment + bytes(self.bytes))
        return path


DESCRIPTION = f"""memory {DIRECT:x} {PAGES * PAGE:x} {IMAGE:x} {IMAGE + 4 * PAGE:x} {KERNEL_TABLES * PAGE:x}
pages {DIRECT + DESCRIPTORS * PAGE:x} 10 0 8 c 80000000
source 1 0 0
source 1 1 0
source 1 1 8
run {DIRECT + 8 * PAGE:x} {32 * PAGE:x} {DIRECT + 8 * PAGE:x} {PAGE:x} {PAGE:x} 20 0 0 1
run {DIRECT + FREE * PAGE:x} {4 * PAGE:x} {DIRECT + FREE * PAGE:x} {PAGE:x} {PAGE:x} 4 0 0 1
run {DIRECT + SLAB * PAGE:x} {PAGE:x} {item(0):x} 40 40 a 1 0 0
run {DIRECT + SPACES * PAGE:x} {PAGE:x} {DIRECT + SPACES * PAGE:x} 20 20 2 2 0 0
dead {item(9):x} {DIRECT + FREE * PAGE:x}
hide {DIRECT + STACK_MEMORY * PAGE:x}
words {IMAGE + STATIC * PAGE:x} {IMAGE + (STATIC + 1) * PAGE:x}
stack 1234 {STACK + 8:x} {STACK + PAGE:x}
registers {REGISTERS:x} 0 {item(2):x}
tables {STACK & ~0x7fffffffff:x} {STACK + PAGE:x}
object {DIRECT + STACK_MEMORY * PAGE:x}
"""
# Of the frames 8 to 39, all without contents are free. Frame 43 is free, too.
DESCRIPTION += "dead " + " ".join(f"{DIRECT + frame * PAGE:x}" for frame in range(8, 40) if frame not in
                                  (*range(USER_TABLES, USER_TABLES + 4), USER, STACK_MEMORY, *range(KERNEL_TABLES, KERNEL_TABLES + 4))) + f" {DIRECT + 43 * PAGE:x}\n"


@pytest.fixture(name="memory")
def made_memory():
    """Reachable objects: static data points to object 0, which points into object 1. A register
    points to object 2. The stack points to object 3, and has the physical address of a page. A
    tagged word in static data points to object 6.

    Lost objects: object 4 points to object 5, but nothing points to object 4. Static data has only
    the complement of object 7's address. The address of object 8 is on the stack below the stack
    pointer, and in a page of a program; neither place is searched. Only a page table refers to the
    program's page."""
    memory = Memory()
    memory.put(DIRECT + STATIC * PAGE, item(0), item(6) | 7, ~item(7) & (1 << 64) - 1, DIRECT + SPACES * PAGE)
    memory.put(item(0), 0, item(1) + 24, 0, item(9))
    memory.put(item(4) + 8, item(5))
    memory.put(item(5) + 56, item(9))
    memory.put(DIRECT + SPACES * PAGE + 8, USER_TABLES * PAGE)
    memory.map(USER_TABLES, 0x400000, USER)
    memory.put(DIRECT + DESCRIPTORS * PAGE + 16 * USER + 8, 1)
    memory.put(DIRECT + USER * PAGE, item(8))
    memory.map(KERNEL_TABLES, STACK, STACK_MEMORY)
    memory.put(DIRECT + STACK_MEMORY * PAGE, item(8), item(3), BY_PHYSICAL * PAGE)
    return memory


def ask(core, description, *questions):
    run = subprocess.run([PROGRAM, core, *questions], input=description, capture_output=True, text=True, check=False)
    assert (run.returncode, run.stderr) == (0, "")
    return [line.split() for line in run.stdout.splitlines()]


def lost(core, description=DESCRIPTION):
    """Returns ({head: objects that it keeps}, number of live objects)."""
    (_, live), *lines = ask(core, description, "unreachable")
    heads = {}
    for word, address, _, _ in lines:
        if word == "head":
            heads[int(address, 16)] = kept = set()
        else:
            kept.add(int(address, 16))
    return heads, int(live, 16)


def test_what_is_lost_and_nothing_else(memory, tmp_path):
    heads, live = lost(memory.core(tmp_path / "core"))
    assert heads == {item(4): {item(5)}, item(7): set(), item(8): set(), DIRECT + LOST_PAGE * PAGE: set(), DIRECT + SPACES * PAGE + 32: set()}
    assert live == 9 + 2 + 10 + 2


def test_what_only_one_root_knows_is_lost_without_it(memory, tmp_path):
    core = memory.core(tmp_path / "core")
    before = set(lost(core)[0])
    for line, found in (("registers", {item(2)}), ("stack", {item(3), DIRECT + BY_PHYSICAL * PAGE}), ("words", {item(0), item(6), DIRECT + SPACES * PAGE}),
                        ("tables", {DIRECT + frame * PAGE for frame in range(KERNEL_TABLES, KERNEL_TABLES + 4)}), ("object", {DIRECT + STACK_MEMORY * PAGE})):
        without = "".join(each for each in DESCRIPTION.splitlines(keepends=True) if not each.startswith(line + " "))
        assert set(lost(core, without)[0]) == before | found, line


def test_the_shortest_path_and_holders(memory, tmp_path):
    memory.put(item(0) + 40, item(2))
    core = memory.core(tmp_path / "core")

    def path(address):
        (_, count), *links = ask(core, DESCRIPTION, "path", f"{address:x}")
        assert int(count, 16) == len(links)
        return [(kind, int(at, 16)) for kind, at, _, _ in links]

    assert path(item(1) + 63) == [("root", IMAGE + STATIC * PAGE), ("word", item(0) + 8)]
    assert path(item(2)) == [("root", REGISTERS + 8)]
    assert path(item(3)) == [("root", STACK + 8)]
    assert path(DIRECT + USER * PAGE) == [("root", IMAGE + STATIC * PAGE + 24), ("walker", DIRECT + SPACES * PAGE)]
    assert path(DIRECT + STACK_MEMORY * PAGE) == [("owner", 0)]
    assert path(item(4)) == path(item(9)) == path(DIRECT + 7 * PAGE) == []
    (_, count, shown, live, *target), *links = ask(core, DESCRIPTION, "holders", f"{item(2) + 8:x}")
    assert (count, shown, live, target) == ("2", "2", "1", [f"{item(2):x}", f"{item(2):x}", "1"])
    assert [link[:3] for link in links] == [["root", f"{REGISTERS + 8:x}", "0"], ["word", f"{item(0) + 40:x}", f"{item(0):x}"]]
    free = ask(core, DESCRIPTION, "holders", f"{item(9):x}")
    assert free[0][1:4] == ["2", "2", "0"] and len(free) == 3


def test_what_keeps_objects(memory, tmp_path):
    """The question `keepers` gives a shortest path to each object, from a stack only if no other root leads to the object, all pointers to the targets,
    and all pointers from elsewhere to the part of a stack that is in use."""
    memory.put(item(0) + 40, item(2), item(3))
    memory.put(item(2), STACK + 24, STACK, REGISTERS + 8)
    memory.put(DIRECT + STACK_MEMORY * PAGE + 32, STACK + 24)
    core = memory.core(tmp_path / "core")
    lines = ask(core, DESCRIPTION + f"target {item(1):x} {item(3):x}\n", "keepers")
    links = {int(words[1], 16): (words[0], int(words[2], 16), int(words[3], 16)) for words in lines if words[0] not in ("to", "onto")}
    assert links[item(0)] == ("root", IMAGE + STATIC * PAGE, 0)
    assert links[item(1)] == ("word", item(0) + 8, item(0))
    assert links[item(2)] == ("word", item(0) + 40, item(0)) and links[item(3)] == ("word", item(0) + 48, item(0))  # not a register, not the stack
    assert links[DIRECT + BY_PHYSICAL * PAGE] == ("root", STACK + 16, 0)
    assert links[DIRECT + USER * PAGE] == ("walker", DIRECT + SPACES * PAGE, DIRECT + SPACES * PAGE)
    assert item(4) not in links and item(7) not in links
    pointers = {tuple(int(word, 16) for word in words[1:5]) for words in lines if words[0] == "to"}
    assert pointers == {(item(1), 0, item(0) + 8, item(0)), (item(3), 0, item(0) + 48, item(0)), (item(3), 2, STACK + 8, 0)}
    assert [[int(word, 16) for word in words[1:5]] for words in lines if words[0] == "onto"] == [[STACK + 24, 0, item(2), item(2)]]


def test_structures_on_stacks_come_before_other_words_there(memory, tmp_path):
    """Object 7 is known to a stack, and to a structure on the stack to which an object points. The shortest path leads through the structure. So does
    the path to object 8, which is only known to object 7, through a second structure."""
    stack = DIRECT + STACK_MEMORY * PAGE
    memory.put(item(0) + 40, STACK + 64)
    memory.put(stack + 40, item(7), item(8))
    memory.put(stack + 64, 0, item(7))
    memory.put(item(7), STACK + 256)
    memory.put(stack + 256, item(8))
    links = {int(words[1], 16): (words[0], int(words[2], 16)) for words in ask(memory.core(tmp_path / "core"), DESCRIPTION, "keepers")}
    assert (links[item(7)], links[item(8)]) == (("root", STACK + 72), ("root", STACK + 256))


def test_where_references_lie(memory, tmp_path):
    """A reference consists of two words: the address of an object, and the reference's number. There
    are references in an object, in static data, in a lost object, and on a stack. On a stack, other
    words may be between the two words, so number 11 is found. In other memory the two words must be
    neighbours. So number 12, in an object, is not found: the word before it is not an address.
    Number 13, in static data, is not found: the word before it is the address of another object."""
    memory.put(item(0) + 32, item(1), 7)
    memory.put(DIRECT + STATIC * PAGE + 256, item(1), 8)
    memory.put(item(4) + 24, item(1), 9)
    memory.put(DIRECT + STACK_MEMORY * PAGE + 64, item(1), 7, item(1), 10, 0, 11)
    memory.put(item(0) + 48, 12)
    memory.put(DIRECT + STATIC * PAGE + 512, item(2), 13)
    core = memory.core(tmp_path / "core")
    wanted = "".join(f"reference {item(1):x} {number:x}\n" for number in range(7, 14))
    places = {tuple(int(word, 16) for word in words[2:5]) for words in ask(core, DESCRIPTION + wanted, "references")}
    assert places == {(7, 3, item(0) + 32), (8, 3, IMAGE + STATIC * PAGE + 256), (9, 2, item(4) + 24),
                      (7, 1, STACK + 64), (10, 1, STACK + 80), (11, 0, STACK + 104)}


def test_what_cannot_be(memory, tmp_path):
    """Each error gives one line, and status 2."""
    core = memory.core(tmp_path / "core")
    cut, none = tmp_path / "cut", tmp_path / "none"
    cut.write_bytes(core.read_bytes()[:5000])
    run = f"run {DIRECT:x} {PAGE:x} {DIRECT:x} 40 40 10 1 0 0\n"
    cases = [(none, DESCRIPTION, "No such file"), (cut, DESCRIPTION, "cut off"), (BUILD / "stele.elf", DESCRIPTION, "not a core"),
             (core, "", "no memory is described"), (core, "words 1 2\n", "memory comes first"), (core, DESCRIPTION + "sword 1\n", "no such word"),
             (core, DESCRIPTION + "words 1\n", "too few numbers"), (core, DESCRIPTION + "words x y\n", "no number"),
             (core, DESCRIPTION.replace(f"{PAGES * PAGE:x}", "0", 1), "no size of memory"), (core, DESCRIPTION + run.replace(" 40 40 10 ", " 40 40 1000 "), "do not lie in"),
             (core, DESCRIPTION + run.replace(f"run {DIRECT:x}", f"run {DIRECT + PAGES * PAGE:x}"), "do not lie in"),
             (core, DESCRIPTION + run.replace(" 40 40 10 1 ", " 40 40 ffffffffffffffff 1 "), "more objects than"),
             (core, DESCRIPTION + run.replace(" 10 1 0", " 10 9 0"), "do not lie in"),
             (core, DESCRIPTION + run.replace(" 40 40 10 ", " 8000000000000000 40 3 "), "do not lie in"),
             (core, DESCRIPTION + run.replace(" 40 40 10 ", " 40 ffffffffffffffff 1 "), "do not lie in")]
    for path, description, why in cases:
        failed = subprocess.run([PROGRAM, path, "unreachable"], input=description, capture_output=True, text=True, check=False)
        assert (failed.returncode, failed.stderr.count("\n")) == (2, 1) and why in failed.stderr, (failed, why)
    odd = subprocess.run([PROGRAM, core, "why"], input=DESCRIPTION, capture_output=True, text=True, check=False)
    assert odd.returncode == 2 and "no such question: why" in odd.stderr


def test_tables_of_nonsense_end(memory, tmp_path):
    """The search ends normally although page tables point to themselves, or to addresses outside of
    the memory."""
    for number in range(4):
        memory.put(DIRECT + (USER_TABLES + number) * PAGE, *[(USER_TABLES + entry % 4) * PAGE | 7 for entry in range(200)], *[0xffffffffff007] * 56)
    memory.put(item(4), item(5))
    assert item(4) in lost(memory.core(tmp_path / "core"))[0]
